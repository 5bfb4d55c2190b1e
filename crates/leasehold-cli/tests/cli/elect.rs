//! `leasehold elect`: one leader, whatever happens to it.

use std::fs;
use std::time::{Duration, Instant};

use leasehold::election::Sighting;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::world::{Running, World, until, until_dead};

/// Says who leads, and whether the leader before it is still at work. A zombie
/// is not.
const LEAD: &str = r#"
before=$(tail -n 1 terms | cut -d ' ' -f 3)
if [ -n "$before" ] && grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$before/status"; then
    echo "$before is still there" >> overlaps
fi 2> /dev/null
echo "$LEASEHOLD_TOKEN $PPID $$" >> terms
exec sleep 1000
"#;

struct Term {
    token: u64,
    leasehold: Pid,
    command: Pid,
}

fn terms(world: &World) -> Vec<Term> {
    let text = fs::read_to_string(world.path("terms")).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let read = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let pid = |word: &str| Pid::from_raw(word.parse().unwrap());
        Term {
            token: words[0].parse().unwrap(),
            leasehold: pid(words[1]),
            command: pid(words[2]),
        }
    };
    whole.lines().map(read).collect()
}

fn candidate(world: &World, number: usize) -> Running {
    let value = format!("candidate {number}");
    world.start(&["elect", "leader", "--value", &value, "-c", LEAD])
}

/// Everything that an observer sees until it is told to stop.
fn observe(url: String, stop: std::sync::mpsc::Receiver<u64>) -> Vec<Sighting> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let session = leasehold::connect(&url).await.unwrap();
        let mut observer = session.election("leader").observe();
        let mut seen = Vec::new();
        let mut last = None;
        loop {
            let next = tokio::time::timeout(Duration::from_millis(50), observer.next()).await;
            if let Ok(sighting) = next {
                seen.push(sighting.unwrap());
            }
            last = last.or_else(|| stop.try_recv().ok());
            let is_last = |token| {
                matches!(seen.last(), Some(Sighting::Leader { leader, .. }) if leader.token.get() == token)
            };
            if last.is_some_and(is_last) {
                session.close().await;
                return seen;
            }
        }
    })
}

#[testbed::test]
fn a_leader_that_is_killed_is_followed_by_one_other_each_time() {
    one_follows_the_other(&World::new(), testbed::times(15, 50));
}

/// A server that hears of no death but by silence.
#[cfg(feature = "redis")]
#[testbed::test]
fn a_leader_that_is_killed_is_followed_by_one_other_on_a_server() {
    let server = crate::redis_server::Server::start();
    one_follows_the_other(
        &World::on(format!("{}?ttl=1s", server.url())),
        testbed::times(5, 12),
    );
}

fn one_follows_the_other(world: &World, kill_times: usize) {
    let mut candidates: Vec<_> = (0..5).map(|number| candidate(world, number)).collect();
    let (tell, stop) = std::sync::mpsc::channel();
    let url = world.url();
    let observing = std::thread::spawn(move || observe(url, stop));
    let mut took = Vec::new();
    for kills in 0..kill_times {
        let term = until("a leader", || terms(world).into_iter().nth(kills));
        let dies = candidates
            .iter()
            .position(|candidate| candidate.pid() == term.leasehold);
        let dies = candidates.swap_remove(dies.unwrap());
        let killed = Instant::now();
        kill(term.leasehold, Signal::SIGKILL).unwrap();
        until("the next leader", || {
            terms(world).into_iter().nth(kills + 1)
        });
        took.push(killed.elapsed());
        drop(dies);
        until_dead(term.command);
        candidates.push(candidate(world, kills + 5));
    }
    let terms = terms(world);
    let tokens: Vec<_> = terms.iter().map(|term| term.token).collect();
    assert_eq!(tokens.len(), kill_times + 1);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    let overlaps = fs::read_to_string(world.path("overlaps")).unwrap_or_default();
    assert_eq!(overlaps, "");
    tell.send(*tokens.last().unwrap()).unwrap();
    let seen = observing.join().unwrap();
    let seen = seen.iter().filter_map(|sighting| match sighting {
        Sighting::Leader { leader, missed } => {
            assert_eq!(*missed, 0);
            Some(leader.token.get())
        }
        Sighting::Nobody => None,
    });
    // Somebody who was seen, then taken for gone, and is not, is told again.
    let mut seen: Vec<_> = seen.collect();
    assert!(seen.is_sorted(), "it goes backwards: {seen:?}");
    seen.dedup();
    // A leader may be elected and killed before its command's first step; such
    // a one is seen too, and has no line.
    assert!(tokens.iter().all(|token| seen.contains(token)), "{seen:?}");
    took.sort_unstable();
    println!(
        "hand-over after a kill: median {:?}, longest {:?}",
        took[took.len() / 2],
        took[took.len() - 1]
    );
}

#[testbed::test]
fn the_command_knows_its_term_and_its_end_lets_another_lead() {
    let world = World::new();
    for term in ["1", "2"] {
        let done = world.run(&["elect", "leader", "--", "printenv", "LEASEHOLD_TERM"]);
        assert_eq!((done.code, done.stdout.trim_end()), (0, term), "{done:?}");
    }
    let done = world.run(&["elect", "leader", "-c", "exit 7"]);
    assert_eq!(done.code, 7, "{done:?}");
}

#[testbed::test]
fn one_that_stands_forever_leads_again_until_a_signal_comes() {
    let world = World::new();
    let script = "echo $LEASEHOLD_TERM >> led; test $LEASEHOLD_TERM = 1 || exec sleep 1000";
    let running = world.start(&["elect", "leader", "--forever", "-c", script]);
    until("the second term", || {
        let led = fs::read_to_string(world.path("led")).ok()?;
        (led == "1\n2\n").then_some(())
    });
    running.signal(Signal::SIGTERM);
    assert_eq!(running.done().code, 128 + 15);
    let done = world.run(&["elect", "leader", "--", "printenv", "LEASEHOLD_TERM"]);
    assert_eq!(done.stdout.trim_end(), "3", "{done:?}");
}

#[testbed::test]
fn a_signal_that_comes_with_the_commands_end_ends_one_that_stands_forever() {
    let world = World::new();
    let told = "echo >> led; trap '' TERM; kill -TERM $PPID; exit 0";
    let done = world.run(&["elect", "leader", "--forever", "-c", told]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(world.lines("led").len(), 1);
}

/// It is a mutex of that name; whoever has it leads nobody.
#[testbed::test]
fn a_plain_lock_of_the_name_is_waited_for() {
    let world = World::new();
    let plain = world.start(&["run", "leader", "sleep", "60"]);
    world.until_held("leader");
    let candidate = world.start(&["elect", "leader", "--", "printenv", "LEASEHOLD_TERM"]);
    world.until_claims("leader", 1, 1);
    plain.signal(Signal::SIGTERM);
    assert_eq!(plain.done().code, 143);
    let done = candidate.done();
    assert_eq!((done.code, done.stdout.trim_end()), (0, "1"), "{done:?}");
}

#[testbed::test]
fn a_leader_that_is_broken_is_stopped_and_says_so() {
    let world = World::new();
    let running = world.start(&["elect", "leader", "-c", "echo $$ > pid; exec sleep 1000"]);
    let command = world.pid("pid");
    let done = world.run(&["break", "leader", "--reason", "asleep", "--yes"]);
    assert_eq!(done.code, 0, "{done:?}");
    let done = running.done();
    assert_eq!(done.code, 76, "{done:?}");
    until_dead(command);
}

#[testbed::test]
fn bad_input_is_one_line() {
    let world = World::new();
    let long = "x".repeat(2000);
    for (arguments, says) in [
        (&["elect", "", "true"][..], "the name is empty"),
        (&["elect", "x", "--value", &long, "true"], "2000 bytes"),
    ] {
        let done = world.run(arguments);
        assert_eq!(done.code, 64, "{done:?}");
        assert!(done.complaint().contains(says), "{done:?}");
    }
    let once = world.run(&["once", "x", "--slot", "1", "true"]);
    assert_eq!(once.code, 0, "{once:?}");
    let done = world.run(&["elect", "x", "true"]);
    assert_eq!(done.code, 64, "{done:?}");
    assert!(done.complaint().contains("choose another name"), "{done:?}");
}
