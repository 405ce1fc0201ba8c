//! Prints the invariants, and for each the tests, assertions and planted faults that cite it: `invariants [NUMBER…]`.
//!
//! `E1` also stands for E1.1 to E1.11, and `J` for all that begin with J.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use cedrat_tests::invariants::{Invariant, all_citations, guards, invariants, planted_faults, whole};

/// Returns whether an argument asks for the invariant of this number.
fn is_asked_for(number: &str, argument: &str) -> bool {
    number.strip_prefix(argument).is_some_and(|rest| {
        let is_letter = argument.len() == 1 && rest.starts_with(|c: char| c.is_ascii_digit());
        rest.is_empty() || rest.starts_with('.') || is_letter || whole(number) == argument
    })
}

fn main() -> io::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let invariants = invariants();
    for argument in &arguments {
        if !invariants.iter().any(|invariant| is_asked_for(&invariant.number, argument)) {
            eprintln!("invariants: no invariant {argument} in docs/inside/invariants.md");
            return Ok(ExitCode::FAILURE);
        }
    }
    let wanted = invariants.into_iter().filter(|invariant| {
        arguments.is_empty() || arguments.iter().any(|argument| is_asked_for(&invariant.number, argument))
    });
    match print(wanted) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS), // the reader has seen enough
        printed => printed.map(|()| ExitCode::SUCCESS),
    }
}

fn print(invariants: impl Iterator<Item = Invariant>) -> io::Result<()> {
    let (citations, faults) = (all_citations(), planted_faults());
    let mut output = BufWriter::new(io::stdout().lock());
    for Invariant { number, sentence } in invariants {
        writeln!(output, "{number}  {sentence}")?;
        for guard in guards(&number, &citations, &faults) {
            writeln!(output, "    {guard}")?;
        }
    }
    output.flush()
}
