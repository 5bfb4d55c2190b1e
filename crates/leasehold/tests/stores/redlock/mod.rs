//! Redlock on real servers: what its page promises beside what every store does.

mod access;
mod amnesia;
mod bad_input;
mod clocks;
mod failing;
mod founding;
mod load;
mod masks;
mod presence;
mod quarantine;
mod rounds;
mod scene;
mod scripts;
mod sizes;
mod twins;
