//! Starts the working process, kills it, and starts it again, until everything is counted.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::protocol::{Event, Opened, WORKER};
use crate::output::{Context, Failure, fail};

const SIGKILL: i32 = 9;

/// Total work of the working processes.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Course {
    /// How often a working process was killed.
    pub(crate) kills: u64,
    /// State found by each opening after the first.
    pub(crate) recoveries: Vec<Opened>,
    /// Transactions acknowledged as stable.
    pub(crate) commits: u64,
    /// Working time of the processes, without recovery and start.
    pub(crate) working: Duration,
}

/// When a working process is killed, by its progress and never by the clock.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kill {
    /// When the n-th piece that it takes up is halfway counted.
    Halfway(u64),
    /// As soon as this many pieces are acknowledged in all, whatever its threads do at that moment.
    Acknowledged(u64),
    /// Never: it may finish.
    Never,
}

impl Kill {
    /// The `number`-th of `kills` kills, counted from 0, over a list of `pieces` of which `done` are done.
    ///
    /// The kills are spread evenly over the work. Every other one waits for a transaction to be halfway,
    /// so that there is something to undo; the rest strike wherever the process happens to be.
    fn plan(number: u64, kills: u64, pieces: u64, done: u64) -> Kill {
        if number >= kills || done >= pieces {
            return Kill::Never;
        }
        let at = pieces * (number + 1) / (kills + 1);
        if number.is_multiple_of(2) {
            let last = pieces - done - 1;
            Kill::Halfway(at.saturating_sub(done).min(last))
        } else {
            Kill::Acknowledged(at)
        }
    }
}

/// One working process.
struct Worker {
    process: Child,
    events: BufReader<ChildStdout>,
}

impl Worker {
    fn start(directory: &Path, threads: usize, kill: Kill) -> Result<Worker, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(WORKER).arg(directory);
        command.args(["--threads", &threads.to_string()]);
        if let Kill::Halfway(number) = kill {
            command.args(["--halt-in", &number.to_string()]);
        }
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().while_doing("starting the working process")?;
        let stdout = process.stdout.take().expect("it was asked for above");
        Ok(Worker { process, events: BufReader::new(stdout) })
    }

    /// The next line; none when the process is gone. A line cut off by a kill counts as none.
    fn event(&mut self) -> Result<Option<Event>, Failure> {
        let mut line = String::new();
        self.events.read_line(&mut line)?;
        if !line.ends_with('\n') {
            return Ok(None);
        }
        let event = serde_json::from_str(&line).while_doing("reading the working process")?;
        Ok(Some(event))
    }

    /// Kills the process; it cannot notice. Lines that it had already written can still be read.
    fn kill(&mut self) -> Result<(), Failure> {
        self.process.kill().while_doing("killing the working process")
    }

    /// Waits for the end. Whether it was killed, or finished by itself.
    fn killed(&mut self) -> Result<bool, Failure> {
        let status = self.process.wait()?;
        match (status.success(), status.signal()) {
            (true, _) => Ok(false),
            (_, Some(SIGKILL)) => Ok(true),
            _ => fail(format!("the working process failed ({status})")),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Only after an error is it still running; then nothing more can be done about it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Has all `pieces` pieces counted in the store at `directory`, with `kills` kills on the way.
pub(crate) fn supervise(
    directory: &Path,
    pieces: u64,
    threads: usize,
    kills: u64,
    bar: &ProgressBar,
) -> Result<Course, Failure> {
    let mut course = Course::default();
    let mut acknowledged = BTreeSet::new();
    for life in 0.. {
        let kill = Kill::plan(course.kills, kills, pieces, acknowledged.len() as u64);
        let mut worker = Worker::start(directory, threads, kill)?;
        let mut opened_at = None;
        while let Some(event) = worker.event()? {
            match event {
                Event::Opened(opened) => {
                    let lost = acknowledged.iter().find(|piece| !opened.done.contains(piece));
                    if let Some(piece) = lost {
                        return fail(format!("piece {piece} was acknowledged, and is lost"));
                    }
                    acknowledged.extend(opened.done.iter().copied());
                    opened_at = Some(Instant::now());
                    if life > 0 {
                        course.recoveries.push(opened);
                    }
                }
                Event::Counted { piece } => {
                    acknowledged.insert(piece);
                    course.commits += 1;
                }
                Event::Halfway { .. } => worker.kill()?,
                Event::Finished => {}
            }
            bar.set_position(acknowledged.len() as u64);
            if matches!(kill, Kill::Acknowledged(at) if acknowledged.len() as u64 >= at) {
                worker.kill()?;
            }
        }
        course.working += opened_at.map_or(Duration::ZERO, |at| at.elapsed());
        if worker.killed()? {
            course.kills += 1;
        } else {
            break;
        }
    }
    Ok(course)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_are_spread_over_the_work() {
        let plans: Vec<Kill> = (0..5).map(|number| Kill::plan(number, 4, 100, number * 15)).collect();
        use Kill::{Acknowledged, Halfway, Never};
        let expected = [Halfway(20), Acknowledged(40), Halfway(30), Acknowledged(80), Never];
        assert_eq!(plans, expected);
    }

    #[test]
    fn each_kill_has_a_piece() {
        for pieces in 0..12 {
            for done in 0..=pieces {
                for number in 0..6 {
                    match Kill::plan(number, 5, pieces, done) {
                        Kill::Halfway(at) => assert!(done + at < pieces),
                        Kill::Acknowledged(at) => assert!(at < pieces),
                        Kill::Never => assert!(number == 5 || done == pieces),
                    }
                }
            }
        }
    }
}
