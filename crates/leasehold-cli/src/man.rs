//! `leasehold man`: the manual, as roff.

use std::fs;
use std::path::Path;

use clap::CommandFactory;
use clap_mangen::Man;

use crate::args::{self, Arguments};
use crate::exit::{self, Failure};
use crate::print;

pub(crate) fn man(args: &args::Man) -> Result<u8, Failure> {
    let command = Arguments::command();
    match &args.all {
        None => print::text(&page(command)?)?,
        Some(folder) => write_all(folder, command)?,
    }
    Ok(exit::OK)
}

fn write_all(folder: &Path, mut command: clap::Command) -> Result<(), Failure> {
    // Fills in what subcommands take over from the program.
    command.build();
    let write = |name: &str, page: String| {
        let path = folder.join(format!("{name}.1"));
        fs::write(&path, page).map_err(|error| {
            Failure::new(
                exit::INPUT_OUTPUT,
                format!("write {}: {error}", path.display()),
            )
        })
    };
    fs::create_dir_all(folder).map_err(|error| {
        Failure::new(
            exit::INPUT_OUTPUT,
            format!("create {}: {error}", folder.display()),
        )
    })?;
    for subcommand in command.get_subcommands() {
        let name = format!("leasehold-{}", subcommand.get_name());
        let named = subcommand.clone().name(name.clone());
        write(&name, page(named)?)?;
    }
    write("leasehold", page(command)?)
}

fn page(command: clap::Command) -> Result<String, Failure> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}
