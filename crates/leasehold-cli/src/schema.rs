//! `leasehold schema`: the tables that a store wants, for whoever makes tables.

use crate::args::Common;
use crate::exit::{self, Failure};
use crate::print;
use crate::store;

pub(crate) fn schema(common: &Common) -> Result<u8, Failure> {
    let url = store::url(common)?;
    print::text(&tables(&url)?)?;
    Ok(exit::OK)
}

#[cfg(feature = "mysql")]
fn tables(url: &str) -> Result<String, leasehold::Error> {
    #[cfg(feature = "postgres")]
    if !url.starts_with("mysql:") && !url.starts_with("mariadb:") {
        return leasehold::postgres::schema(url);
    }
    leasehold::mysql::schema(url)
}

#[cfg(not(feature = "mysql"))]
fn tables(url: &str) -> Result<String, leasehold::Error> {
    leasehold::postgres::schema(url)
}
