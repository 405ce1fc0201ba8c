//! The `cedrat` command: a tour, a crash workload, and subcommands that inspect a store.
#![forbid(unsafe_code)]

mod archive;
mod arguments;
mod backup;
mod bank;
mod changes;
mod completions;
mod consumers;
mod dump;
mod heap;
mod info;
mod java;
mod locks;
mod log;
mod look;
mod objects;
mod output;
mod owners;
mod page;
mod pins;
mod replicas;
mod resolve;
mod retry;
mod scrub;
mod space;
mod threads;
mod tour;
mod verify;

use std::process::ExitCode;

use cedrat::txn::Registry;
use clap::Parser;

use arguments::{Arguments, Bank, Command, Heap, OfBackup};
use output::{Failure, Outcome};

fn main() -> ExitCode {
    // Wrong arguments end here with exit code 2, `--help` with 0.
    let arguments = Arguments::parse();
    match run(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(why)) => {
            output::complain(&why);
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Outcome {
    match command {
        Command::Tour(arguments) => tour::tour(&arguments),
        Command::Bank(Bank::Run(arguments)) => bank::run(&arguments),
        Command::Bank(Bank::Verify(arguments)) => bank::verify(&arguments),
        Command::Heap(Heap::Info(arguments)) => heap::info(&arguments),
        Command::Heap(Heap::Verify(arguments)) => heap::verify(&arguments),
        Command::Heap(Heap::Bench(arguments)) => heap::bench(&arguments),
        Command::Info(arguments) => info::info(&arguments),
        Command::Verify(arguments) => verify::verify(&arguments),
        Command::Space(arguments) => space::space(&arguments),
        Command::Page(arguments) => page::page(&arguments),
        Command::Pins(arguments) => pins::pins(&arguments),
        Command::Locks(arguments) => locks::locks(&arguments),
        Command::Dump(arguments) => dump::dump(&arguments),
        Command::Load(arguments) => dump::load(&arguments),
        Command::Salvage(arguments) => dump::salvage(&arguments),
        Command::Backup(arguments) => match (arguments.of_backup, arguments.copy) {
            (Some(OfBackup::Verify(arguments)), _) => verify::verify_backup(&arguments),
            (None, Some(arguments)) => backup::backup(&arguments),
            (None, None) => output::fail("name a store and the folder of its backup"),
        },
        Command::Restore(arguments) => backup::restore(&arguments),
        Command::Archive(arguments) => archive::archive(&arguments),
        Command::Follow(arguments) => replicas::follow(&arguments),
        Command::Promote(arguments) => replicas::promote(&arguments),
        Command::Scrub(arguments) => scrub::scrub(&arguments),
        Command::Log(arguments) => log::log(&arguments),
        Command::Changes(arguments) => changes::changes(&arguments),
        Command::Consumers(arguments) => consumers::consumers(&arguments),
        Command::Resolve(arguments) => resolve::resolve(&arguments),
        Command::Objects(arguments) => objects::objects(&arguments),
        Command::Completions(arguments) => completions::completions(&arguments),
        Command::Man(arguments) => completions::man(&arguments),
        Command::TourWorker(arguments) => tour::work(&arguments),
    }
}

/// All operations that the command knows: those of Cedrat, and those of its own tour and bank.
fn registry() -> Registry {
    cedrat::registry().operation::<tour::Increment>().record_kind(bank::TRANSFER)
}
