//! Sixteen sessions on one name: does the lock go round as fast as a bare token
//! would, and as evenly?

use std::sync::Arc;

use crate::bench::report::{Goal, Report, median};
use crate::exit::Failure;

use super::floor::HandOver;
use super::slice::evenness;
use super::{Bench, ROUNDS, tasks};

const SESSIONS: usize = 16;

pub(crate) async fn one_name(bench: &Bench<'_>, report: &mut Report) -> Result<(), Failure> {
    let part = "16 sessions, one name";
    report.note(part, "one process, a connection per session; no hold")?;
    let floor = HandOver::open(&bench.server, SESSIONS).await?;
    let mut sessions = Vec::with_capacity(SESSIONS);
    for _ in 0..SESSIONS {
        sessions.push(leasehold::connect(&bench.setting.url).await?);
    }
    let mutexes: Arc<[_]> = sessions
        .iter()
        .map(|session| session.mutex("leasehold-bench/sessions"))
        .collect();
    let time = bench.turn(2);
    let (mut ours, mut bare, mut ratios) = (vec![], vec![], vec![]);
    let (mut our_grants, mut bare_grants) = ([0; SESSIONS], [0; SESSIONS]);
    for _ in 0..ROUNDS {
        let mine = tasks::slice(&mutexes, time).await?;
        let raw = floor.slice(time).await?;
        ratios.push(mine.rate() / raw.rate());
        ours.push(mine.rate());
        bare.push(raw.rate());
        for (grants, slice) in [(&mut our_grants, &mine), (&mut bare_grants, &raw)] {
            for (total, more) in grants.iter_mut().zip(&slice.grants) {
                *total += more;
            }
        }
    }
    report.figure(
        part,
        "cycles, all sessions",
        median(&mut ours),
        "1/s",
        Goal::None,
    )?;
    report.figure(
        part,
        "BLPOP and RPUSH of one token",
        median(&mut bare),
        "1/s",
        Goal::None,
    )?;
    let ratio = median(&mut ratios);
    report.figure(part, "speed against BLPOP", ratio, "x", Goal::AtLeast(0.75))?;
    let even = evenness(&our_grants);
    report.figure(
        part,
        "min/max grants per session",
        even,
        "",
        Goal::AtLeast(0.9),
    )?;
    let even = evenness(&bare_grants);
    report.figure(part, "min/max grants of BLPOP", even, "", Goal::None)?;
    for session in sessions {
        session.close().await;
    }
    Ok(())
}
