//! The functions of the schema decide as the rule does, on every small queue.

use leasehold::rule::{self, Claim, Verdict, Watch};

use super::{Site, postgres_with};

const SESSION: &str = "00000000-0000-0000-0000-000000000001";

/// Every queue of up to so many claims that fit into the capacity one by one.
fn queues(capacity: u32, longest: u32) -> Vec<Vec<Claim>> {
    let mut all = vec![vec![]];
    let mut last: Vec<Vec<u32>> = vec![vec![]];
    for _ in 0..longest {
        let longer = |weights: &Vec<u32>| {
            let weights = weights.clone();
            (1..=capacity).map(move |weight| [weights.clone(), vec![weight]].concat())
        };
        last = last.iter().flat_map(longer).collect();
        all.extend(last.clone());
    }
    let numbered = |weights: Vec<u32>| {
        let claims = (1..).zip(weights);
        claims
            .map(|(order, weight)| Claim { order, weight })
            .collect()
    };
    all.into_iter().map(numbered).collect()
}

fn ticket(order: u64) -> String {
    format!("00000000-0000-0000-0000-{order:012}")
}

/// Puts a queue under a name.
fn put(name: &str, capacity: u32, queue: &[Claim]) -> String {
    let rows = queue.iter().map(|claim| {
        let (order, weight) = (claim.order, claim.weight);
        let ticket = ticket(order);
        format!("('{name}', {order}, '{ticket}', '{SESSION}', 0, {capacity}, {weight}, now())")
    });
    let rows: Vec<_> = rows.collect();
    format!(
        "insert into leasehold.claim \
         (name, place, ticket, session, holder, capacity, weight, since) values {};\n",
        rows.join(", ")
    )
}

async fn scene(server: &Site) {
    // Makes the tables.
    server.session("").await.close().await;
    server.sql(&format!(
        "select leasehold.open('{SESSION}', 3600000, 'host', 1, '')"
    ));
}

fn verdict(capacity: u32, queue: &[Claim], order: u64) -> String {
    match rule::verdict(capacity, queue, order) {
        Some(Verdict::Held) => "held|".into(),
        Some(Verdict::Waiting(Watch::One(order))) => format!("waiting|{order}"),
        Some(Verdict::Waiting(Watch::Any)) => "waiting|".into(),
        None => "gone|".into(),
    }
}

#[testbed::test]
async fn the_functions_give_the_verdicts_of_the_rule() {
    let server = postgres_with(&[]);
    scene(&server).await;
    let (mut script, mut expected) = (String::new(), Vec::new());
    for capacity in 1..=3 {
        for (number, queue) in queues(capacity, 5 - capacity / 2).iter().enumerate() {
            if queue.is_empty() {
                continue;
            }
            let name = format!("{capacity}/{number}");
            script.push_str(&put(&name, capacity, queue));
            for claim in queue {
                let (order, ticket) = (claim.order, ticket(claim.order));
                script.push_str(&format!(
                    "select answer, watch from leasehold.look('{name}', '{ticket}', {order});\n"
                ));
                expected.push(verdict(capacity, queue, order));
            }
        }
    }
    let answers = server.postgres().script(&script);
    let answers: Vec<_> = answers.lines().collect();
    assert!(expected.len() > 500, "{}", expected.len());
    assert_eq!(answers, expected);
}

#[testbed::test]
async fn whoever_holds_now_and_did_not_before_is_told_and_nobody_else() {
    let server = postgres_with(&[]);
    scene(&server).await;
    let channel = SESSION.replace('-', "");
    let mut script = format!("listen leasehold_{channel};\n");
    let mut expected = Vec::new();
    for capacity in 1..=3 {
        for (number, queue) in queues(capacity, 4).iter().enumerate() {
            for leaving in queue {
                let name = format!("{capacity}/{number}/{}", leaving.order);
                script.push_str(&put(&name, capacity, queue));
                let ticket = ticket(leaving.order);
                script.push_str(&format!(
                    "select '{name} ' || answer from \
                     leasehold.withdraw('{name}', {}, '{ticket}', null);\n",
                    leaving.order
                ));
                expected.push(format!("{name} removed"));
                let mut rest = queue.clone();
                rest.retain(|claim| claim.order != leaving.order);
                let before = &queue[..rule::holders(capacity, queue)];
                let now = &rest[..rule::holders(capacity, &rest)];
                let new = now.iter().filter(|claim| !before.contains(claim));
                expected.extend(new.map(|claim| format!("told {}", claim.order)));
            }
        }
    }
    let answers = server.postgres().script(&script);
    let answers: Vec<_> = answers
        .lines()
        .map(|line| match line.split_once("payload \"") {
            Some((_, payload)) => {
                let payload = payload.split('"').next().unwrap_or_default();
                let (_, order) = payload.split_once(' ').unwrap_or_default();
                format!("told {order}")
            }
            None => line.to_owned(),
        })
        .collect();
    assert!(expected.len() > 500, "{}", expected.len());
    assert_eq!(answers, expected);
}
