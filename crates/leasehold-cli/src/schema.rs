//! `leasehold schema`: the tables that a store wants, for whoever makes tables.

use crate::args::Common;
use crate::exit::{self, Failure};
use crate::print;
use crate::store;

pub(crate) fn schema(common: &Common) -> Result<u8, Failure> {
    let url = store::url(common)?;
    print::text(&leasehold::postgres::schema(&url)?)?;
    Ok(exit::OK)
}
