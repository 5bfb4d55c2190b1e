//! How many requests a lock takes: who was granted one before guesses the next
//! token, and then one round is enough.

use leasehold::{Session, Token};

use crate::redlock::scene::{Scene, until, within};
use testbed::redis::text;

// A node of a busy machine has long to answer, lest it is asked again.

/// Five nodes are asked, and told afterwards.
const ONE_ROUND: u64 = 10;
/// Those that granted are asked once more.
const TWO_ROUNDS: u64 = 13;

/// How many scripts all nodes have run so far.
fn requests(scene: &Scene) -> u64 {
    let calls = |info: &str| -> Option<u64> {
        let line = info
            .lines()
            .find_map(|it| it.strip_prefix("cmdstat_evalsha:calls="))?;
        line.split(',').next()?.parse().ok()
    };
    let servers = scene.fleet.servers.iter();
    let infos = servers.map(|server| text(&server.command(&["INFO", "commandstats"])));
    infos.map(|info| calls(&info).unwrap_or(0)).sum()
}

/// Takes the lock and gives it back, which sends so many requests.
async fn cycle(scene: &Scene, session: &Session, name: &str, expected: u64) -> Token {
    let before = requests(scene);
    let guard = within("lock", session.mutex(name).lock()).await.unwrap();
    let token = guard.token();
    within("release", guard.release()).await.unwrap();
    // A majority has answered. One too many is seen now or in the next cycle.
    let what = format!("be free after {expected} requests");
    until(&what, || requests(scene) >= before + expected).await;
    assert_eq!(requests(scene), before + expected, "{name} with {token:?}");
    assert_eq!(scene.count(name), 0);
    token
}

#[testbed::test]
async fn from_the_second_grant_on_one_round_is_enough() {
    let scene = Scene::start(5, &[]);
    let session = scene.session("ttl=60s&node_timeout=5s").await;
    let mut last = cycle(&scene, &session, "ledger", TWO_ROUNDS).await;
    for round in 0..20 {
        // Nobody has taken the second one before: its counter is the greatest there is.
        let name = if round % 2 == 0 { "ledger" } else { "journal" };
        let token = cycle(&scene, &session, name, ONE_ROUND).await;
        assert_eq!(token.get(), last.get() + 32);
        last = token;
    }
    session.close().await;
}

#[testbed::test]
async fn a_guess_that_another_session_overtook_costs_a_second_round_and_no_order() {
    let scene = Scene::start(5, &[]);
    let ann = scene.session("ttl=60s&node_timeout=5s").await;
    let bob = scene.session("ttl=60s&node_timeout=5s").await;
    let mut tokens = vec![
        cycle(&scene, &ann, "ledger", TWO_ROUNDS).await,
        cycle(&scene, &ann, "ledger", ONE_ROUND).await,
        cycle(&scene, &bob, "ledger", TWO_ROUNDS).await,
        cycle(&scene, &bob, "ledger", ONE_ROUND).await,
        // Here Ann guesses what Bob has had.
        cycle(&scene, &ann, "ledger", TWO_ROUNDS).await,
        cycle(&scene, &ann, "ledger", ONE_ROUND).await,
        cycle(&scene, &bob, "ledger", TWO_ROUNDS).await,
    ];
    // The jump of a readmission is beyond every guess.
    let floor = tokens[6].get() + (1 << 24);
    scene.tell_all(&["HSET", "lh:redlock", "floor", &floor.to_string()]);
    tokens.push(cycle(&scene, &ann, "ledger", TWO_ROUNDS).await);
    assert!(tokens[7].get() > floor);
    tokens.push(cycle(&scene, &ann, "ledger", ONE_ROUND).await);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    ann.close().await;
    bob.close().await;
}

#[testbed::test]
async fn a_session_without_tokens_does_not_spoil_the_guess() {
    let scene = Scene::start(5, &[]);
    let ann = scene.session("ttl=60s&node_timeout=5s").await;
    let bob = scene.session("ttl=60s&node_timeout=5s&tokens=off").await;
    let first = cycle(&scene, &ann, "ledger", TWO_ROUNDS).await;
    cycle(&scene, &bob, "ledger", ONE_ROUND).await;
    let second = cycle(&scene, &ann, "ledger", ONE_ROUND).await;
    assert!(first < second);
    ann.close().await;
    bob.close().await;
}

#[testbed::test]
async fn a_token_is_above_what_any_majority_knows_whatever_was_guessed() {
    let scene = Scene::start(5, &[]);
    let session = scene.session("ttl=60s&node_timeout=5s").await;
    let mutex = session.mutex("ledger");
    for ahead in 0..=5 {
        let guard = within("lock", mutex.lock()).await.unwrap();
        let last = guard.token();
        within("release", guard.release()).await.unwrap();
        until("be free", || scene.count("ledger") == 0).await;
        let counter = last.get() + 1000;
        for server in &scene.fleet.servers[..ahead] {
            server.command(&["SET", "lh:r:ledger", &counter.to_string()]);
        }
        let guard = within("lock", mutex.lock()).await.unwrap();
        assert!(guard.token() > last);
        assert!(ahead < 3 || guard.token().get() > counter);
        within("release", guard.release()).await.unwrap();
        until("be free", || scene.count("ledger") == 0).await;
    }
    session.close().await;
}
