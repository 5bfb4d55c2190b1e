//! Every command on MariaDB, as on any other store.

use tempfile::TempDir;
use testbed::mysql::Mysql;

use crate::world::{Done, World, bare};

pub(crate) fn mysql(settings: &[&str]) -> (TempDir, Mysql) {
    let folder = TempDir::new().unwrap();
    let server = Mysql::start(folder.path(), settings);
    (folder, server)
}

#[testbed::test]
fn doctor_says_what_is_weak() {
    let (_folder, server) = mysql(&[]);
    let world = World::on(server.url());
    let done = world.run(&["doctor"]);
    for part in ["MariaDB", "innodb_flush_log_at_trx_commit is 2"] {
        assert!(done.stdout.contains(part), "{part}: {done:?}");
    }
}

#[testbed::test]
fn bad_input_is_one_clear_line() {
    let (_folder, server) = mysql(&[]);
    let missing = format!("mysql://root@127.0.0.1:{}/nowhere", server.port);
    let url = |url: &str| Done::of(&mut bare(["--url", url, "run", "x", "true"]));
    for (place, code, part) in [
        ("mysql:", 78, "names no server"),
        ("mysql://a:b/c", 78, "port"),
        ("mysql://a,b/c", 78, "one host"),
        ("mysql://a", 78, "no database"),
        ("mysql://a/c?schema=", 78, "1 to 48 bytes"),
        ("mysql://a/c?ssl-cert=x.pem", 78, "go together"),
        ("mysql://a/c?ssl-mode=of", 78, "ssl-mode"),
        ("mysql://u:hunter2@127.0.0.1:1/c", 69, "refused"),
        (missing.as_str(), 78, "nowhere"),
    ] {
        let done = url(place);
        assert_eq!(done.code, code, "{place}: {done:?}");
        assert!(done.complaint().contains(part), "{place}: {done:?}");
        assert!(!done.stderr.contains("hunter2"), "{done:?}");
        assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
    }
    let world = World::on(server.url());
    let long = "x".repeat(513);
    let done = world.run(&["run", &long, "true"]);
    assert_eq!(done.code, 64, "{done:?}");
    assert_eq!(world.run(&["run", &long[..512], "true"]).code, 0);
}
