//! Who holds a lock, for those who ask often.

use std::collections::HashMap;

use super::fault::Refusal;
use super::inspect::{Looking, held};
use super::record::Record;
use super::wire::Stat;
use super::{ZookeeperEngine, lock};
use crate::error::Result;
use crate::name::Name;

/// Of how many locks the claims are kept in mind.
const LOOKED_AT: usize = 16;

/// Claims by their nodes: what a claim's node says never changes, nor does its name
/// come again.
pub(super) type Known = HashMap<String, (Stat, Record)>;

/// Who holds the lock, as the leader knows it. Each claim is read once, so that many
/// may ask often.
pub(super) async fn holders(engine: &ZookeeperEngine, name: &Name) -> Result<Vec<u64>> {
    let mut known = lock(&engine.met).remove(name).unwrap_or_default();
    let mut look = async || {
        let looking = Looking::with(engine).await?;
        let session = looking.session();
        engine.claims_knowing(session, name, &mut known).await
    };
    let seen = match look().await {
        Err(Refusal::SessionOver) => look().await,
        seen => seen,
    };
    if !known.is_empty() {
        let mut met = lock(&engine.met);
        if met.len() >= LOOKED_AT {
            met.clear();
        }
        met.insert(name.clone(), known);
    }
    let fault = |why: Refusal| why.fault(format!("see who holds {name}"), &engine.label);
    let claims = seen.map_err(fault)?;
    let (_, held) = held(&claims);
    let holders = claims.iter().take(held);
    Ok(holders.map(|(_, _, record)| record.holder).collect())
}
