//! The servers and the proxy that other tests start do what those tests rely on.

use std::time::{Duration, Instant};

use testbed::proxy::frames::{length, words};
use testbed::redis::{Cluster, RedisServer, Replicated, Sentinel, Version, text};
use testbed::tls::Certificates;

#[testbed::test]
fn arguments_with_spaces_arrive_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = RedisServer::start(folder.path(), &["--appendonly", "yes"]);
    server.command(&["SET", "a key", "two words"]);
    assert_eq!(text(&server.command(&["GET", "a key"])), "two words");
    let port = server.port();
    server.restart();
    assert_eq!(server.port(), port);
    assert_eq!(text(&server.command(&["GET", "a key"])), "two words");
}

#[testbed::test]
fn a_server_on_a_socket_file_has_no_port() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start_unix(folder.path(), &[]);
    assert!(server.url().starts_with("unix:/"));
    assert_eq!(server.tell("PING"), "PONG");
    assert_eq!(server.info("tcp_port").unwrap(), "0");
}

#[testbed::test]
fn a_server_with_tls_shows_a_certificate_of_our_authority() {
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::make(folder.path());
    let server = RedisServer::start_tls(folder.path(), &certificates, true);
    assert_eq!(server.tell("CONFIG GET port"), "port\n0");
    let shaken = |authority: &std::path::Path| {
        let mut command = std::process::Command::new("redis-cli");
        command.args(["-h", "127.0.0.1", "-p", &server.port().to_string()]);
        command.arg("--tls").arg("--cacert").arg(authority);
        command.arg("--cert").arg(&certificates.client);
        command.arg("--key").arg(&certificates.client_key);
        let output = command.arg("PING").output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim() == "PONG"
    };
    assert!(shaken(&certificates.authority));
    let other = tempfile::tempdir().unwrap();
    assert!(!shaken(&Certificates::make(other.path()).authority));
}

#[testbed::test]
fn a_replica_has_what_its_primary_has() {
    let folder = tempfile::tempdir().unwrap();
    let replicated = Replicated::start(folder.path(), 1, &[]);
    replicated.primary().command(&["SET", "key", "value"]);
    // `WAIT` would wait for what its own connection wrote, which is nothing.
    let deadline = Instant::now() + Duration::from_secs(30);
    while replicated.replicas()[0].tell("GET key") != "value" {
        assert!(Instant::now() < deadline, "the replica hears of the key");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[testbed::test]
fn sentinels_replace_a_killed_primary() {
    let folder = tempfile::tempdir().unwrap();
    let mut sentinel = Sentinel::start(folder.path(), &[]);
    let first = sentinel.kill_primary();
    let second = sentinel.wait_for_new_primary();
    assert_ne!(first, second);
    assert_eq!(sentinel.primary().tell("SET key value"), "OK");
}

#[testbed::test]
fn a_slot_moves_with_its_keys() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(folder.path());
    let slot = cluster.slot("{tag}");
    let (from, to) = (cluster.owner(slot), (cluster.owner(slot) + 1) % 3);
    cluster.servers[from].command(&["SET", "{tag}", "value"]);
    cluster.begin_move(slot, from, to);
    assert_eq!(cluster.servers[from].tell("GET {tag}"), "value");
    cluster.move_keys(slot, from, to);
    assert!(cluster.servers[from].tell("GET {tag}").starts_with("-ASK"));
    cluster.finish_move(slot, to);
    assert_eq!(cluster.owner(slot), to);
    assert_eq!(cluster.servers[to].tell("GET {tag}"), "value");
    assert!(
        cluster.servers[from]
            .tell("GET {tag}")
            .starts_with("-MOVED")
    );
}

#[testbed::test]
fn a_replica_takes_the_slots_of_a_killed_master() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = Cluster::start_with_replicas(folder.path());
    assert_eq!(cluster.owner(0), 0);
    cluster.kill(0);
    assert_eq!(cluster.wait_for_new_owner(0, 0), 3);
}

#[testbed::test]
fn other_versions_are_what_they_say() {
    for version in Version::ALL {
        let folder = tempfile::tempdir().unwrap();
        let server = RedisServer::start_version(version, folder.path(), &[]);
        let field = match version {
            Version::Valkey9 => "valkey_version",
            Version::Redis5 | Version::Redis6 => "redis_version",
        };
        let number = server.info(field).unwrap();
        let expected = match version {
            Version::Redis5 => "5.0.6",
            Version::Redis6 => "6.2.5",
            Version::Valkey9 => "9.1.2",
        };
        assert_eq!(number, expected);
    }
}

#[testbed::test]
fn a_frame_ends_where_its_last_part_ends() {
    let whole: [&[u8]; 11] = [
        b"+OK\r\n",
        b":12\r\n",
        b"$5\r\nhe\r\no\r\n",
        b"$-1\r\n",
        b"_\r\n",
        b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
        b"*-1\r\n",
        b"%1\r\n+key\r\n,1.5\r\n",
        b">3\r\n+message\r\n$1\r\nc\r\n$0\r\n\r\n",
        b"=7\r\ntxt:abc\r\n",
        b"|1\r\n+a\r\n:1\r\n*1\r\n#t\r\n",
    ];
    for frame in whole {
        let shown = String::from_utf8_lossy(frame);
        let mut longer = frame.to_vec();
        longer.extend_from_slice(b"+more\r\n");
        assert_eq!(length(&longer), Some(frame.len()), "{shown:?}");
        for end in 0..frame.len() {
            assert_eq!(length(&frame[..end]), None, "{shown:?} until {end}");
        }
    }
}

#[testbed::test]
fn a_command_is_taken_apart() {
    let set = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\na b\r\n";
    assert_eq!(words(set), [&b"SET"[..], b"k", b"a b"]);
    assert_eq!(words(b"PING now\r\n"), [&b"PING"[..], b"now"]);
}
