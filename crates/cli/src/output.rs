//! Output: results on stdout, everything else on stderr.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// Why a command ends with exit code 1: one line that says what to do next.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

/// How a command ends.
pub(crate) type Outcome = Result<(), Failure>;

impl<E: std::error::Error> From<E> for Failure {
    /// The error with everything that caused it, in one line.
    fn from(error: E) -> Failure {
        let mut line = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // Many errors already repeat their cause in their own words.
            if !line.contains(&text) {
                line = format!("{line}: {text}");
            }
            cause = error.source();
        }
        Failure(line)
    }
}

/// Says what was being done when something failed.
pub(crate) trait Context<T> {
    /// Puts `what` before the failure's own words.
    fn while_doing(self, what: impl Display) -> Result<T, Failure>;
}

impl<T, E: Into<Failure>> Context<T> for Result<T, E> {
    fn while_doing(self, what: impl Display) -> Result<T, Failure> {
        self.map_err(|error| Failure(format!("{what}: {}", error.into().0)))
    }
}

/// Ends a command with exit code 1.
pub(crate) fn fail<T>(why: impl Into<String>) -> Result<T, Failure> {
    Err(Failure(why.into()))
}

/// Text that may come from a store, for a terminal: control characters as escapes. They could move the cursor, or make one
/// line look like two.
pub(crate) fn plain(text: impl Display) -> String {
    let mut plain = String::new();
    for character in text.to_string().chars() {
        if character.is_control() {
            plain.extend(character.escape_default());
        } else {
            plain.push(character);
        }
    }
    plain
}

/// Says on stderr why something failed, in one line.
pub(crate) fn complain(why: &str) {
    note(format_args!("cedrat: {}", plain(why)));
}

/// Prints one line to stderr. If that fails, because its reader has closed the pipe for example, there is no place left to say
/// so: the exit code stays that of the command. (`eprintln!` would panic.)
pub(crate) fn note(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Ends a command that has shown what it could: with all that it found wrong, a line each.
pub(crate) fn ended(problems: &[String]) -> Outcome {
    match problems {
        [] => Ok(()),
        [others @ .., last] => {
            others.iter().for_each(|problem| complain(problem));
            fail(last)
        }
    }
}

/// Prints one line for people. The reader may close the pipe (`cedrat … | head`): the command goes on to its verdict.
pub(crate) fn show(text: impl Display) -> Outcome {
    while_read(line(plain(text)))
}

fn while_read(printed: io::Result<()>) -> Outcome {
    match printed {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => Ok(printed?),
    }
}

/// Prints one line to stdout and flushes it, so that a reader at the other end of a pipe has it now.
pub(crate) fn line(text: impl Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// Prints what a verification found, as one JSON object or in rows that end with the verdict, and fails where there are problems.
pub(crate) fn verdict(
    found: &impl Serialize,
    as_json: bool,
    problems: &[String],
    mut rows: Vec<(&'static str, String)>,
) -> Outcome {
    if as_json {
        json(found)?;
    } else {
        rows.push(("verdict", if problems.is_empty() { "sound" } else { "not sound" }.to_string()));
        self::rows(&rows)?;
    }
    ended(problems)
}

/// Prints one JSON object on a line of its own.
pub(crate) fn json(value: &impl Serialize) -> Outcome {
    while_read(line(serde_json::to_string(value)?))
}

/// Prints rows of a name and a value, the values below each other.
pub(crate) fn rows(rows: &[(&str, String)]) -> Outcome {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in rows {
        show(format_args!("{name:width$}  {value}"))?;
    }
    Ok(())
}

/// A progress bar on stderr over `total` steps; silent without a terminal.
pub(crate) fn progress(total: u64, what: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg:28} {bar:32} {pos}/{len} {eta}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total).with_style(style).with_message(what.to_string())
}

/// A progress bar on stderr over bytes, whose number is set later; silent without a terminal.
pub(crate) fn progress_of_bytes(what: &str) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg:28} {bar:32} {bytes}/{total_bytes} {bytes_per_sec} {eta}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(0).with_style(style).with_message(what.to_string())
}

/// A number with its thousands apart: `1 234 567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes in the largest binary unit that keeps it above one.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = number as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{number} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1 000");
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(3 << 19), "1.5 MiB");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(plain("Zoë → 3"), "Zoë → 3");
        assert_eq!(plain("a\x1b]0;title\x07\nroots 0\u{9b}m"), "a\\u{1b}]0;title\\u{7}\\nroots 0\\u{9b}m");
    }

    #[test]
    fn a_failure_tells_its_causes_once() {
        let cause = io::Error::other("the disk is gone");
        let error = io::Error::new(io::ErrorKind::NotFound, cause);
        let failure = Err::<(), _>(error).while_doing("opening shop.db");
        assert_eq!(failure.expect_err("failed").0, "opening shop.db: the disk is gone");
    }
}
