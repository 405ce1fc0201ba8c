//! `cedrat completions` and `cedrat man`: completions for shells and manual pages, from the definition of the command.

use std::io::{self, Write};

use clap::CommandFactory;

use crate::arguments::{Arguments, Completions, Man};
use crate::look;
use crate::output::{Context, Outcome};

/// Prints the script of a shell.
pub(crate) fn completions(arguments: &Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "cedrat", &mut script);
    match io::stdout().lock().write_all(&script) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => Ok(printed?),
    }
}

/// Writes a manual page for each subcommand.
pub(crate) fn man(arguments: &Man) -> Outcome {
    look::is_directory(&arguments.directory)?;
    clap_mangen::generate_to(Arguments::command(), &arguments.directory).while_doing(arguments.directory.display())
}
