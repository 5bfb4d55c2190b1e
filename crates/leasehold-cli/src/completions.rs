//! `leasehold completions`: completions for a shell.

use clap::CommandFactory;

use crate::args::{Arguments, Completions};
use crate::exit::{self, Failure};
use crate::print;

pub(crate) fn completions(args: &Completions) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut Arguments::command(),
        "leasehold",
        &mut script,
    );
    print::text(&String::from_utf8_lossy(&script))?;
    Ok(exit::OK)
}
