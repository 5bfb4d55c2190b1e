//! The documentation says what the code does: the table of stores in README is
//! the engines' own promises. `LEASEHOLD_FIX=1 cargo test --test docs` writes it.

use std::fmt::Write as _;
use std::path::PathBuf;

use leasehold::Promises;

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

#[tokio::test]
async fn the_table_of_stores_in_readme_is_what_the_engines_promise() {
    let folder = tempfile::tempdir().unwrap();
    let mut table = String::from(
        "| store | shared by | kinds | order of service | fence grade | a killed holder's lock is free | survives a restart |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let sqlite = format!("sqlite:{}", folder.path().join("locks.db").display());
    let sqlite_name = "[`sqlite:PATH`](docs/stores/sqlite.md)";
    for (store, url) in [(sqlite_name, sqlite.as_str()), ("`memory:`", "memory:")] {
        write!(table, "{}", row(store, &promises(url).await)).unwrap();
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
#[test]
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
