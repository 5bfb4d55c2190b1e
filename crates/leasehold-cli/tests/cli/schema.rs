//! `leasehold schema` on the databases: tables that an administrator makes for a role that
//! may not.

use crate::world::{Done, World, bare};

fn serves_a_role_that_may_not_make_tables(url_as_app: &str, sql: impl Fn(&str), rights: &str) {
    let world = World::on(format!("{url_as_app}?schema=my%20locks"));
    let done = world.run(&["run", "x", "true"]);
    assert_eq!(done.code, 77, "{done:?}");
    assert!(done.complaint().contains("leasehold schema"), "{done:?}");
    let done = world.run(&["schema"]);
    assert_eq!(done.code, 0, "{done:?}");
    sql(&done.stdout);
    sql(rights);
    assert_eq!(world.run(&["run", "x", "true"]).code, 0);
}

#[cfg(feature = "postgres")]
#[testbed::test]
fn a_schema_that_is_printed_serves_a_role_that_may_not_make_one_on_postgres() {
    let (_folder, server) = crate::postgres::postgres(&[]);
    server.sql("create role app login");
    let sql = |text: &str| drop(server.sql(text));
    serves_a_role_that_may_not_make_tables(
        &server.url_as("app"),
        sql,
        "grant usage on schema \"my locks\" to app; \
         grant usage on sequence \"my locks\".token to app; \
         grant select, insert, update, delete on all tables in schema \"my locks\" to app",
    );
}

#[cfg(feature = "mysql")]
#[testbed::test]
fn a_schema_that_is_printed_serves_a_role_that_may_not_make_one_on_mysql() {
    let (_folder, server) = crate::mysql::mysql(&[]);
    server.sql("create user app@'127.0.0.1'; grant select on shop.* to app@'127.0.0.1'");
    let sql = |text: &str| drop(server.sql(text));
    serves_a_role_that_may_not_make_tables(
        &server.url_as("app"),
        sql,
        "grant select, insert, update, delete on shop.* to app@'127.0.0.1'",
    );
}

#[testbed::test]
fn a_store_without_tables_has_no_schema() {
    let done = Done::of(&mut bare(["--url", "sqlite:x.db", "schema"]));
    assert_eq!(done.code, 78, "{done:?}");
}
