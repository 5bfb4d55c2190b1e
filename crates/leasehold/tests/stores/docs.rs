//! The documentation says what the code does: the table of stores in README is
//! the engines' own promises. `cargo xtask fix` writes it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use leasehold::Promises;
use testbed::redis::{Fleet, RedisServer};
use testbed::{etcd, mysql, postgres, zookeeper};

const START: &str = "<!-- promises: written by `cargo xtask fix`, checked by the tests -->\n";
const END: &str = "<!-- end of promises -->";

fn readme() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../README.md")
}

async fn promises(url: &str) -> Promises {
    leasehold::inspect(url)
        .await
        .expect("the store is there")
        .promises()
}

fn row(store: &str, promises: &Promises) -> String {
    let kinds = match (promises.rwlock, promises.semaphore) {
        (true, true) => "mutex, rwlock, semaphore",
        (true, false) => "mutex, rwlock",
        (false, true) => "mutex, semaphore",
        (false, false) => "mutex",
    };
    let order = if promises.fair { "of arrival" } else { "any" };
    let restart = if promises.durable { "yes" } else { "no" };
    let Promises {
        reach,
        fence,
        crash,
        ..
    } = promises;
    format!("| {store} | {reach} | {kinds} | {order} | {fence} | {crash} | {restart} |\n")
}

#[testbed::test]
async fn the_table_of_stores_in_readme_is_what_the_engines_promise() {
    let folder = tempfile::tempdir().unwrap();
    let mut table = String::from(
        "| store | shared by | kinds | order of service | fence grade | a killed holder's lock is free | survives a restart |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let sqlite = format!("sqlite:{}", folder.path().join("locks.db").display());
    let redis = RedisServer::start(folder.path(), &[]);
    let fleet = Fleet::start(folder.path(), 3);
    let layout = |layout: &str| format!("{}?layout={layout}", redis.url());
    let etcd = etcd::Etcd::start(folder.path(), etcd::Version::System);
    let zookeeper = zookeeper::Zookeeper::start(folder.path());
    let postgres = postgres::Postgres::start(folder.path(), &[]);
    let other = tempfile::tempdir().unwrap();
    let mysql = mysql::Mysql::start(other.path(), &[]);
    for (store, url) in [
        ("[`sqlite:PATH`](docs/stores/sqlite.md)", sqlite),
        ("[`redis:`](docs/stores/redis.md)", layout("queue")),
        (
            "[`redis:…?layout=plain`](docs/stores/redis-plain.md)",
            layout("plain"),
        ),
        (
            "[`redis:…?layout=redisson`](docs/stores/redis-redisson.md)",
            layout("redisson"),
        ),
        ("[`redlock:`](docs/stores/redlock.md)", fleet.url()),
        (
            "[`redlock:…?tokens=off`](docs/stores/redlock.md)",
            format!("{}?tokens=off", fleet.url()),
        ),
        ("[`etcd:`](docs/stores/etcd.md)", etcd.url()),
        ("[`zk:`](docs/stores/zookeeper.md)", zookeeper.url()),
        ("[`postgres:`](docs/stores/postgres.md)", postgres.url()),
        (
            "[`postgres:…?mode=session`](docs/stores/postgres.md)",
            format!("{}?mode=session&schema=other", postgres.url()),
        ),
        ("[`mysql:`](docs/stores/mysql.md)", mysql.url()),
        (
            "[`mysql:…?mode=session`](docs/stores/mysql.md)",
            format!("{}?mode=session", mysql.url()),
        ),
        ("`memory:`", "memory:".to_owned()),
    ] {
        write!(table, "{}", row(store, &promises(&url).await)).unwrap();
    }
    let text = std::fs::read_to_string(readme()).unwrap();
    let (before, rest) = text
        .split_once(START)
        .expect("README has the table's start");
    let (written, after) = rest.split_once(END).expect("README has the table's end");
    if written != table && std::env::var_os("LEASEHOLD_FIX").is_some() {
        std::fs::write(readme(), format!("{before}{START}{table}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(written, table, "run `cargo xtask fix`");
}

/// Every `subject::case` that a page names is a case of the suite.
#[testbed::test]
fn the_cases_that_the_guarantees_name_exist() {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../GUARANTEES.md");
    let page = std::fs::read_to_string(page).unwrap();
    let known: Vec<_> = leasehold::conformance::cases()
        .iter()
        .map(|case| case.name)
        .collect();
    let named: Vec<_> = page
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|code| code.contains("::") && code.len() > code.find("::").unwrap() + 2)
        .collect();
    assert!(named.len() > 40, "the page names its tests");
    for case in named {
        assert!(
            known.contains(&case),
            "GUARANTEES.md names {case}, which is no case"
        );
    }
}

/// Every test that a page names by its whole name is a test.
#[testbed::test]
fn the_tests_that_the_guarantees_name_exist() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut sources = String::new();
    read_all(&root.join("crates"), &mut sources);
    let is_name = |code: &&str| {
        let letters = code.chars();
        let is_plain = letters
            .into_iter()
            .all(|c| c.is_ascii_lowercase() || c == '_');
        is_plain && code.matches('_').count() >= 3
    };
    for page in ["GUARANTEES.md", "docs/fencing.md"] {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        // What stands in a block of code is not a name.
        let prose: String = text.split("```").step_by(2).collect();
        let named: Vec<_> = prose.split('`').skip(1).step_by(2).collect();
        let named: Vec<_> = named.into_iter().filter(is_name).collect();
        assert!(named.len() > 10, "{page} names its tests");
        for test in named {
            let is_there = sources.contains(&format!("fn {test}("))
                || sources.contains(&format!("fn {test}<"));
            assert!(is_there, "{page} names {test}, which is no test");
        }
    }
}

fn read_all(folder: &Path, sources: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_all(&path, sources);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            sources.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}
