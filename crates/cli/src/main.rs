//! The `cedrat` command: a tour, a crash workload, and subcommands that inspect a store.
#![forbid(unsafe_code)]

mod archive;
mod arguments;
mod backup;
mod bank;
mod changes;
mod completions;
mod consumers;
mod disks;
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
mod rotate;
mod scrub;
mod space;
mod stats;
mod threads;
mod tour;
mod verify;

use std::process::ExitCode;

use cedrat::txn::Registry;
use clap::Parser;

use arguments::{Arguments, Bank, Command, Heap, OfBackup};
use disks::Disks;
use output::{Failure, Outcome};

fn main() -> ExitCode {
    // Wrong arguments end here with exit code 2, `--help` with 0.
    let arguments = Arguments::parse();
    match Disks::new(&arguments.keys).and_then(|disks| run(arguments.command, &disks)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(why)) => {
            output::complain(&why);
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command, disks: &Disks) -> Outcome {
    use Command::{Completions, Man, Tour, TourWorker};
    if disks.has_keys()
        && matches!(command, Tour(_) | Command::Heap(Heap::Bench(_)) | Completions(_) | Man(_) | TourWorker(_))
    {
        return output::fail("this subcommand opens no encrypted store: leave out --key-file");
    }
    match command {
        Command::Tour(arguments) => tour::tour(&arguments),
        Command::Bank(Bank::Run(arguments)) => bank::run(&arguments, disks),
        Command::Bank(Bank::Verify(arguments)) => bank::verify(&arguments, disks),
        Command::Heap(Heap::Info(arguments)) => heap::info(&arguments, disks),
        Command::Heap(Heap::Verify(arguments)) => heap::verify(&arguments, disks),
        Command::Heap(Heap::Bench(arguments)) => heap::bench(&arguments),
        Command::Info(arguments) => info::info(&arguments, disks),
        Command::Verify(arguments) => verify::verify(&arguments, disks),
        Command::Space(arguments) => space::space(&arguments, disks),
        Command::Page(arguments) => page::page(&arguments, disks),
        Command::Pins(arguments) => pins::pins(&arguments, disks),
        Command::Stats(arguments) => stats::stats(&arguments, disks),
        Command::Locks(arguments) => locks::locks(&arguments, disks),
        Command::Dump(arguments) => dump::dump(&arguments, disks),
        Command::Load(arguments) => dump::load(&arguments, disks),
        Command::Salvage(arguments) => dump::salvage(&arguments, disks),
        Command::Backup(arguments) => match (arguments.of_backup, arguments.copy) {
            (Some(OfBackup::Verify(arguments)), _) => verify::verify_backup(&arguments, disks),
            (None, Some(arguments)) => backup::backup(&arguments, disks),
            (None, None) => output::fail("name a store and the folder of its backup"),
        },
        Command::Restore(arguments) => backup::restore(&arguments, disks),
        Command::RotateKey(arguments) => rotate::rotate_key(&arguments, disks),
        Command::Archive(arguments) => archive::archive(&arguments, disks),
        Command::Follow(arguments) => replicas::follow(&arguments),
        Command::Promote(arguments) => replicas::promote(&arguments),
        Command::Scrub(arguments) => scrub::scrub(&arguments, disks),
        Command::Log(arguments) => log::log(&arguments, disks),
        Command::Changes(arguments) => changes::changes(&arguments, disks),
        Command::Consumers(arguments) => consumers::consumers(&arguments, disks),
        Command::Resolve(arguments) => resolve::resolve(&arguments, disks),
        Command::Objects(arguments) => objects::objects(&arguments, disks),
        Command::Completions(arguments) => completions::completions(&arguments),
        Command::Man(arguments) => completions::man(&arguments),
        Command::TourWorker(arguments) => tour::work(&arguments),
    }
}

/// All operations that the command knows: those of Cedrat, and those of its own tour and bank.
fn registry() -> Registry {
    cedrat::registry().operation::<tour::Increment>().record_kind(bank::TRANSFER)
}
