//! Stamps, latches and barriers on servers, as on a file.

use crate::world::World;
use crate::{barrier, latch, stamp};

/// With what is to be said of a stamp's word there.
fn all_are_there(url: String, of_words: fn(&World)) {
    let world = World::on(url);
    stamp::a_command_is_good_if_no_writer_came_meanwhile(&world);
    of_words(&world);
    latch::who_waits_goes_on_when_all_parts_are_counted(&world);
    barrier::all_begin_together_and_none_is_done_before_all_are(&world);
}

#[cfg(feature = "redis")]
#[test]
fn all_are_there_on_redis() {
    if let Some(server) = crate::redis_server::Server::start() {
        all_are_there(server.world().url(), stamp::a_word_is_refused);
    }
}

#[cfg(feature = "etcd")]
#[test]
fn all_are_there_on_etcd() {
    if let Some((_folder, etcd)) = crate::etcd::etcd(1) {
        all_are_there(etcd.url(), stamp::a_word_is_refused);
    }
}

#[cfg(feature = "mysql")]
#[test]
fn all_are_there_on_mariadb() {
    if let Some((_folder, server)) = crate::mysql::mysql(&[]) {
        all_are_there(server.url(), stamp::a_word_is_refused);
    }
}

#[cfg(feature = "postgres")]
#[test]
fn all_are_there_on_postgres() {
    if let Some((_folder, server)) = crate::postgres::postgres(&[]) {
        all_are_there(server.url(), stamp::a_word_tells_of_a_writer);
    }
}

#[cfg(feature = "zookeeper")]
#[test]
fn all_are_there_on_zookeeper() {
    if let Some((_folder, zookeeper)) = crate::zookeeper::zookeeper(1) {
        all_are_there(zookeeper.url(), stamp::a_word_tells_of_a_writer);
    }
}
