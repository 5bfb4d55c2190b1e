//! Locks in real Redis servers, on every layout and topology.

mod bad_servers;
mod batches;
mod detours;
mod forms;
mod plain;
mod redisson;
mod store;
mod topologies;
