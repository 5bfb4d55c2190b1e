//! Nodes that are none, and URLs that are wrong: one line, the right code, and
//! no password.

use crate::redis_server::Server;
use crate::redlock_nodes::Fleet;
use crate::world::{Done, World, bare};

/// What every command does with a store that it cannot use.
fn refusal(url: &str, code: i32, part: &str) {
    for arguments in [
        &["run", "x", "true"][..],
        &["hold", "x"],
        &["ls"],
        &["show", "x"],
        &["doctor"],
        &["redlock", "admit"],
    ] {
        let done = Done::of(bare(arguments).env("LEASEHOLD_URL", url));
        assert_eq!(done.code, code, "{arguments:?}: {done:?}");
        assert!(done.complaint().contains(part), "{arguments:?}: {done:?}");
        assert!(!done.stderr.contains("canary"), "{arguments:?}: {done:?}");
        assert!(done.stdout.is_empty(), "{arguments:?}: {done:?}");
    }
    // Nodes that cannot be entered are shown so.
    let done = Done::of(bare(["redlock", "status"]).env("LEASEHOLD_URL", url));
    match code {
        78 => assert!(done.complaint().contains(part), "{done:?}"),
        _ => assert!(done.stdout.contains(part), "{done:?}"),
    }
    assert_eq!(done.code, if code == 78 { 78 } else { 69 }, "{done:?}");
    assert!(!format!("{done:?}").contains("canary"), "{done:?}");
    let done = Done::of(&mut bare(["bench", "--url", url]));
    assert_eq!(done.code, code, "{done:?}");
    assert!(done.complaint().contains(part), "{done:?}");
    assert!(!done.stderr.contains("canary"), "{done:?}");
}

fn with(fleet: &Fleet, place: &str) -> String {
    format!("{},{place}", fleet.url())
}

#[testbed::test]
fn fewer_than_three_nodes_must_be_wanted() {
    let fleet = Fleet::start(2);
    refusal(&fleet.url(), 78, "?i_know_this_is_not_ha");
    let place = fleet.servers[0].place();
    refusal(&format!("redlock://:canary@{place}"), 78, "1 of at least 3");
    let world = World::on(format!("{}?i_know_this_is_not_ha", fleet.url()));
    assert_eq!(world.run(&["run", "x", "true"]).code, 0);
    let done = world.run(&["redlock", "status"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stdout.ends_with("2 of 2 nodes count, 2 are needed\n"));
}

#[testbed::test]
fn the_same_server_twice_is_found_under_any_name() {
    let fleet = Fleet::start(2);
    let place = fleet.servers[0].place();
    refusal(&with(&fleet, &place), 78, "is named twice");
    let other_name = place.replace("127.0.0.1", "localhost");
    let url = with(&fleet, &format!(":canary@{other_name}"));
    // A server without a password takes any.
    fleet.servers[0].tell("CONFIG SET requirepass canary");
    let url = url.replacen("redlock://", "redlock://:canary@", 1);
    refusal(&url, 78, "are the same server");
}

#[testbed::test]
fn a_replica_a_cluster_node_or_an_old_server_is_no_node() {
    let fleet = Fleet::start(2);
    let master = fleet.servers[0].place().replace(':', " ");
    let replica = Server::with(&[&format!("replicaof {master}")]);
    refusal(&with(&fleet, &replica.place()), 78, "replica");
    let cluster = Server::with(&["cluster-enabled yes"]);
    refusal(&with(&fleet, &cluster.place()), 78, "cluster");
    let old = Server::too_old();
    refusal(&with(&fleet, &old.place()), 78, "5.0.6");
}

#[testbed::test]
fn a_wrong_password_is_access_denied() {
    let fleet = Fleet::with(3, &["requirepass right"]);
    let url = fleet.url();
    refusal(&url, 77, "password");
    let wrong = url.replace("127.0.0.1", ":wrongcanary@127.0.0.1");
    refusal(&wrong, 77, "password");
    refusal(
        &url.replace("127.0.0.1", "nobody:wrongcanary@127.0.0.1"),
        77,
        "password",
    );
    // One that we may not enter would be missing for good.
    let right = url.replace("127.0.0.1", ":right@127.0.0.1");
    let one_wrong = right.replacen(":right@", ":wrongcanary@", 1);
    let world = World::on(one_wrong.clone());
    assert_eq!(World::on(right).run(&["run", "x", "true"]).code, 0);
    let done = world.run(&["run", "x", "true"]);
    assert_eq!(done.code, 77, "{done:?}");
    assert!(done.complaint().contains("password"), "{done:?}");
    let done = world.run(&["redlock", "status"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.stdout.contains("password"), "{done:?}");
    assert!(!format!("{done:?}").contains("canary"), "{done:?}");
}

#[testbed::test]
fn counters_near_their_end_grant_nothing_more() {
    let fleet = Fleet::start(3);
    let world = fleet.world();
    assert_eq!(world.run(&["run", "x", "true"]).code, 0);
    for server in &fleet.servers {
        server.tell("HSET lh:redlock floor 9007199254740990");
    }
    let done = world.run(&["run", "x", "true"]);
    assert_eq!(done.code, 64, "{done:?}");
    assert!(done.complaint().contains("2^53"), "{done:?}");
    // Nothing stays behind, and nothing is lost of what is there.
    assert_eq!(world.run(&["ls", "--json"]).stdout.trim(), "[]");
    let done = world.run(&["redlock", "status", "--json"]);
    assert_eq!(
        done.json()["nodes"][0]["highest"],
        9_007_199_254_740_990_u64
    );
    for server in &fleet.servers {
        assert_eq!(server.tell("EXISTS x"), "0");
    }
}

#[testbed::test]
fn what_is_wrong_with_the_url_is_said_without_its_secrets() {
    for (url, part) in [
        ("redlock://", "empty node"),
        ("redlock://:canary@a,,b", "empty node"),
        ("redlock://:canary@a:99999,b,c", "port"),
        ("redlock://a,b,c?tokens=maybe", "on, off"),
        ("redlock://a,b,c?node_timeout=1h", "1ms to 10s"),
        ("redlock://a,b,c?tokns=off", "tokens"),
        ("redlock://a,b,c?layout=plain", "layout"),
    ] {
        let done = Done::of(bare(["run", "x", "true"]).env("LEASEHOLD_URL", url));
        assert_eq!(done.code, 78, "{url}: {done:?}");
        assert!(done.complaint().contains(part), "{url}: {done:?}");
        assert!(!done.stderr.contains("canary"), "{url}: {done:?}");
    }
}
