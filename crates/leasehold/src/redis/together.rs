//! Several locks in one step, if one script may work on all of them.

use super::RedisEngine;
use super::answer::strange;
use super::whole_millis;
use crate::engine::{Ticket, Together};
use crate::error::{Error, ErrorKind, Result};
use crate::fence::Token;

pub(super) async fn enqueue_all(engine: &RedisEngine, tickets: &[Ticket]) -> Result<Together> {
    let Some(first) = tickets.first() else {
        return Ok(Together::Separately);
    };
    let claims: Vec<_> = tickets.iter().map(|one| engine.inbox.admit(one)).collect();
    let forget = || {
        tickets
            .iter()
            .for_each(|one| engine.inbox.forget(one.claim.id));
    };
    let keys: Vec<_> = claims.iter().map(|mine| mine.keys.lock()).collect();
    let (Some(open), true) = (
        engine.inbox.lease(first.lease),
        engine.server.is_one_slot(&keys),
    ) else {
        forget();
        return Ok(Together::Separately);
    };
    claims.iter().for_each(|mine| mine.asked());
    let doing = || format!("lock {} and others", first.claim.name);
    let not_after = engine.server.time_in(keys[0], open.lease.ttl).unwrap_or(0);
    let mut arguments = vec![
        not_after.to_string(),
        whole_millis(open.lease.ttl).to_string(),
    ];
    for (ticket, mine) in tickets.iter().zip(&claims) {
        arguments.push(mine.ticket.as_str().to_owned());
        arguments.push(open.rest_of(ticket));
    }
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let script = &engine.scripts.enqueue_all;
    let asking = engine.server.run_noting(script, &keys, &arguments, doing);
    let (answer, doer): (Vec<String>, _) = asking.await?;
    let answer: Vec<_> = answer.iter().map(String::as_str).collect();
    match answer[..] {
        ["held", ref orders @ ..] if orders.len() == tickets.len() => {
            engine.server.confirm(&doer, keys[0], doing).await?;
            let tokens = orders.iter().map(|order| order.parse().map(Token::new));
            let tokens = tokens.collect::<Result<Vec<_>, _>>();
            let tokens = tokens.map_err(|_| strange(doing(), &engine.server.label))?;
            claims.iter().for_each(|mine| mine.is_held(true));
            if claims.iter().any(|mine| mine.is_doubtful()) {
                open.news.notify_one();
            }
            Ok(Together::Held(tokens))
        }
        ["busy"] => {
            forget();
            Ok(Together::Busy)
        }
        ["separately"] => {
            forget();
            Ok(Together::Separately)
        }
        ["late", now] => {
            let now = now.parse();
            let now = now.map_err(|_| strange(doing(), &engine.server.label))?;
            engine.server.learn_time(keys[0], now);
            let why = "the request took longer than the ttl";
            Err(Error::new(ErrorKind::Unavailable, doing(), why).on(&*engine.server.label))
        }
        _ => Err(strange(doing(), &engine.server.label)),
    }
}
