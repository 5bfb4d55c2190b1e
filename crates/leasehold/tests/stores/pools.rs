//! Servers that one test has after another, empty: starting one takes longer than many
//! tests do. A test that changes settings or users of a server starts its own; a test that
//! needs two takes the database first.

use testbed::Pool;
use testbed::mysql::{DATABASE, Mysql};
use testbed::postgres::Postgres;
use testbed::redis::RedisServer;

pub(crate) static REDIS: Pool<RedisServer> = Pool::new(
    4,
    |folder| RedisServer::start(folder, &[]),
    RedisServer::wipe,
);

pub(crate) static POSTGRES: Pool<Postgres> = Pool::new(
    4,
    |folder| Postgres::start(folder, &[]),
    |server| {
        // What the last test left open may keep tables from being dropped.
        server.sql(
            "select pg_terminate_backend(pid) from pg_stat_activity \
             where backend_type = 'client backend' and pid <> pg_backend_pid()",
        );
        server.sql(
            "drop schema if exists leasehold cascade; drop schema public cascade; \
             create schema public",
        );
    },
);

pub(crate) static MYSQL: Pool<Mysql> = Pool::new(
    4,
    |folder| Mysql::start(folder, &[]),
    |server| {
        server.end_connections();
        server.sql(&format!(
            "drop database {DATABASE}; create database {DATABASE}"
        ));
    },
);
