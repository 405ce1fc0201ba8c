//! Recovery of a crash image in a process of its own.
//!
//! A simulated crash ends a store and not its process, so statics of the workload's operations survive it: a cache, a counter, a
//! table of names. A real crash loses them. So a few images are recovered by the test binary itself, which is executed again with
//! the name of the running test. There the same run of the same check finds its job in the environment, does it, and exits.
//!
//! ```text
//! parent: image, state that was read ──▶ directory ──▶ child: open, set up an empty disk for the roots, read, compare, check
//!         verdict                    ◀── directory ◀──
//! ```
//!
//! The image is opened before `set_up` is called: recovery finds all statics as a new process has them.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use cedrat_media::{Durability, Image, Media, OpenMode, SimDisk, write_all_at};
use cedrat_sync::{Arc, is_scheduled};

use crate::case::Case;
use crate::crashes::{Birth, Life, Walk};
use crate::report::{Failure, Fault, STATES_VARIABLE};
use crate::scenario::{Error, Scenario};
use crate::words::{difference_of_lines, last_records};

/// The environment variable that names the directory of a job. Only a check sets it, for the process that it starts.
const JOB_VARIABLE: &str = "CEDRAT_FRESH_PROCESS";

/// Time within which a process must reach the check that started it: the test may do much before.
const REACH_TIME_MAX: Duration = Duration::from_secs(60);

/// Bytes of a process's standard error stream that are reported.
const WORDS_MAX: usize = 2_000;

/// Files of a job. The child writes the last two.
const CHECK: &str = "check";
const IMAGE: &str = "image";
const BEGUN: &str = "begun";
const VERDICT: &str = "verdict";

/// Verdict of a fresh process on an image.
pub(crate) enum Verdict {
    /// It recovers the same state.
    Same,
    /// It does not; a description.
    Differs(String),
    /// It could not compare; the reason.
    Unknown(String),
}

/// One run of a check, as the same run is found in another process.
pub(crate) struct Site {
    /// The name of the running test; `None`: unknown.
    test: Option<String>,
    /// The check's name, its seed, and how many runs of this name and seed the test has begun before.
    check: String,
}

impl Site {
    /// Counts a run of a check.
    pub(crate) fn enter(name: &str, seed: u64) -> Site {
        static RUNS: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());
        let test = test_name();
        let check = format!("{name} seed={seed}");
        let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        let before = runs.entry(format!("{check} {test:?}")).or_default();
        let check = format!("{check} run={before}");
        *before += 1;
        Site { test, check }
    }

    /// Returns the job for which this process was started, if it is one for this run.
    pub(crate) fn job(&self) -> Option<Job> {
        let directory = PathBuf::from(std::env::var_os(JOB_VARIABLE)?);
        let check = std::fs::read_to_string(directory.join(CHECK)).ok()?;
        (check == self.check).then_some(Job { directory })
    }

    /// Recovers `image` in a fresh process, which compares the state there with `expected`, the pretty form of the state here.
    /// The process is killed if it does not reach the check within a minute, or then takes longer than `time_max`.
    pub(crate) fn recover(&self, image: &Image, set_up: u64, expected: &str, time_max: Duration) -> Verdict {
        let unknown = |error: io::Error| Verdict::Unknown(format!("no fresh process could be started: {error}"));
        let Some(test) = &self.test else {
            return Verdict::Unknown("the name of the running test is unknown: its thread has none".to_string());
        };
        let job = match Job::create(&self.check, image, set_up, expected) {
            Ok(job) => job,
            Err(error) => return unknown(error),
        };
        let verdict = job.execute(test, time_max).unwrap_or_else(unknown);
        job.remove();
        verdict
    }
}

/// Whether a check has started this process to recover one image.
pub(crate) fn is_started_for_an_image() -> bool {
    std::env::var_os(JOB_VARIABLE).is_some()
}

/// Whether this process recovers one image, or may not start others.
fn is_fresh() -> bool {
    cfg!(cedrat_shuttle) || cfg!(miri) || is_scheduled() || is_started_for_an_image()
}

/// The name of the running test: that of its thread, or the argument of `--exact` where tests run in the main thread.
fn test_name() -> Option<String> {
    match thread::current().name() {
        Some("main") => {
            let arguments: Vec<String> =
                std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
            let is_exact = arguments.iter().any(|argument| argument == "--exact");
            let mut names = arguments.into_iter().filter(|argument| !argument.starts_with('-'));
            let name = names.next().filter(|_| is_exact);
            name.filter(|_| names.next().is_none())
        }
        name => name.map(str::to_string),
    }
}

/// The job of a fresh process: a directory of files.
pub(crate) struct Job {
    directory: PathBuf,
}

impl Job {
    fn create(check: &str, image: &Image, set_up: u64, expected: &str) -> io::Result<Job> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let directory = std::env::temp_dir().join(format!("cedrat-fresh-{}-{number}", std::process::id()));
        std::fs::create_dir(&directory)?;
        let job = Job { directory };
        let files: Vec<(&str, Vec<u8>)> =
            image.names().filter_map(|name| image.file(name).map(|bytes| (name, bytes))).collect();
        let image = postcard::to_allocvec(&(files, set_up, expected)).map_err(io::Error::other)?;
        let written = [(CHECK, check.as_bytes()), (IMAGE, &image)];
        match written.into_iter().try_for_each(|(name, bytes)| std::fs::write(job.file(name), bytes)) {
            Ok(()) => Ok(job),
            Err(error) => {
                job.remove();
                Err(error)
            }
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Removes the files. What cannot be removed stays among the temporary files of the system.
    fn remove(self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }

    /// Executes the test in a fresh process, and returns the verdict that it has left.
    fn execute(&self, test: &str, time_max: Duration) -> io::Result<Verdict> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--exact", test, "--include-ignored", "--nocapture", "--test-threads=1"]);
        command.env(JOB_VARIABLE, &self.directory);
        command.env_remove(STATES_VARIABLE); // states are counted in the parent
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let ended = wait(command.spawn()?, time_max, || self.file(BEGUN).exists())?;
        let begun = self.file(BEGUN).exists();
        let verdict = match read_if_there(&self.file(VERDICT))? {
            Some(text) => from_text(&text),
            None if begun => Verdict::Differs(format!("a fresh process {ended} while it recovered this image")),
            None => Verdict::Unknown(format!(
                "the test {test} was executed again, and {ended} before it came to this check"
            )),
        };
        Ok(verdict)
    }

    /// Notes that the check was reached.
    fn begin(&self) -> io::Result<()> {
        std::fs::write(self.file(BEGUN), "")
    }

    /// Leaves the verdict and ends the process: everything behind the check is done by its parent.
    pub(crate) fn end(&self, verdict: &Verdict) -> ! {
        let text = match verdict {
            Verdict::Same => "same\n".to_string(),
            Verdict::Differs(words) => format!("differs\n{words}"),
            Verdict::Unknown(words) => format!("unknown\n{words}"),
        };
        let unfinished = self.file("unfinished");
        let left = std::fs::write(&unfinished, text).and_then(|()| std::fs::rename(&unfinished, self.file(VERDICT)));
        if let Err(error) = left {
            eprintln!("writing the verdict into {}: {error}", self.directory.display());
            std::process::exit(1);
        }
        std::process::exit(0)
    }

    /// Returns the disk of the image, the hash of the disk after the set-up, and the pretty form of the state that the parent has
    /// read.
    fn read(&self) -> Result<(Arc<SimDisk>, u64, String), Error> {
        let bytes = std::fs::read(self.file(IMAGE))?;
        let (files, set_up, expected): (Vec<(String, Vec<u8>)>, u64, String) = postcard::from_bytes(&bytes)?;
        let disk = SimDisk::new();
        for (name, bytes) in files {
            let file = disk.open(&name, OpenMode::Create)?;
            disk.set_len(file, bytes.len() as u64)?;
            write_all_at(&disk, file, 0, &bytes, Durability::Durable)?;
        }
        Ok((Arc::new(SimDisk::from_image(disk.image())), set_up, expected))
    }
}

fn from_text(text: &str) -> Verdict {
    match text.split_once('\n') {
        Some(("same", _)) => Verdict::Same,
        Some(("differs", words)) => Verdict::Differs(words.to_string()),
        Some((_, words)) => Verdict::Unknown(words.to_string()),
        None => Verdict::Unknown(format!("the verdict '{text}' of a fresh process is no verdict")),
    }
}

fn read_if_there(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Waits for the end of a process, and kills it at a time limit. Returns how it has ended, with the end of its standard error
/// stream.
fn wait(mut child: Child, time_max: Duration, has_begun: impl Fn() -> bool) -> io::Result<String> {
    let mut stream = child.stderr.take().expect("a piped stream");
    let (sender, ended) = channel();
    let reader = thread::spawn(move || {
        let mut words = Vec::new();
        let _ = stream.read_to_end(&mut words); // what was read until then is reported
        let _ = sender.send(()); // the receiver may have given up
        words
    });
    let mut killed = None;
    if ended.recv_timeout(REACH_TIME_MAX) == Err(RecvTimeoutError::Timeout) {
        let more = if has_begun() { time_max } else { Duration::ZERO };
        if ended.recv_timeout(more) == Err(RecvTimeoutError::Timeout) {
            killed = Some(REACH_TIME_MAX + more);
            child.kill()?;
        }
    }
    let status = child.wait()?;
    let words = reader.join().unwrap_or_default();
    let words = String::from_utf8_lossy(&words[words.len().saturating_sub(WORDS_MAX)..]).into_owned();
    let end = match killed {
        Some(time) => format!("was killed after {time:?}"),
        None => format!("ended ({status})"),
    };
    Ok(if words.trim().is_empty() { end } else { format!("{end}, with the words:\n{}\n", words.trim()) })
}

impl<S: Scenario> Walk<'_, S> {
    /// Whether an image of the first life is one of those that a fresh process recovers. They are spread over the life; one with
    /// a loser is preferred, because its recovery undoes, too.
    pub(crate) fn wants_fresh_process(&self, life: &Life<S>, at: usize, birth: &Birth<S>) -> bool {
        if self.site.is_none() || self.report.fresh >= self.plan.fresh {
            return false;
        }
        let (done, of) = ((at - life.from) * 4 * self.plan.fresh, life.journal.len() - life.from);
        let due = self.report.fresh * 4 + 2;
        done >= of * (due + usize::from(birth.store.recovery().losers == 0))
    }

    /// Recovers an image in a fresh process, which must come to the same state.
    pub(crate) fn recover_in_fresh_process(
        &mut self,
        image: &Image,
        state: &S::State,
        case: &Case,
    ) -> Result<(), Failure> {
        let Some(site) = self.site.filter(|_| !is_fresh()) else { return Ok(()) };
        // The process has a clock too, which describes the step that hangs.
        let time_max = self.probe.clock.time_max * 2;
        match site.recover(image, self.set_up, &format!("{state:#?}"), time_max) {
            Verdict::Same => self.report.fresh += 1,
            Verdict::Differs(seen) => {
                let log = last_records(image, &self.probe.scenario.registry());
                return Err(Failure { log, ..self.probe.failure(case, Fault::FreshProcess, seen) });
            }
            Verdict::Unknown(why) => {
                self.report.notes.push(format!("no image was recovered in a fresh process: {why}"));
                self.site = None;
            }
        }
        Ok(())
    }

    /// Recovers the image of a job, and compares.
    pub(crate) fn recover_alone(&self, job: &Job) -> Result<Verdict, Failure> {
        let (probe, scenario) = (self.probe, &self.probe.scenario);
        let case = Case::new(&probe.name, self.plan.seed);
        let loaded = job.begin().map_err(Error::from).and_then(|()| job.read());
        let (disk, set_up, expected) = match loaded {
            Ok(loaded) => loaded,
            Err(error) => return Ok(Verdict::Unknown(format!("it could not read its job: {error}"))),
        };
        let store = probe.guarded(&case, Fault::Refused, || probe.open(&disk))?;
        let birth = probe.guarded(&case, Fault::Workload, || self.birth())?;
        if birth.disk.image().hash() != set_up {
            return Ok(Verdict::Unknown("set_up makes another disk there, so its roots may be others".to_string()));
        }
        let roots = birth.roots;
        let read = || probe.guarded(&case, Fault::Model, || Ok(format!("{:#?}", scenario.read(&store, &roots)?)));
        let found = read()?;
        if found != expected {
            let forms = (0..READS).map(|_| read()).collect::<Result<Vec<_>, _>>()?;
            if forms.iter().all(|form| *form == found) {
                return Ok(Verdict::Differs(another_state(&found, &expected)));
            }
            // A map without an order prints its entries in another order each time.
            let (found_lines, expected_lines) = (sorted_lines(&found), sorted_lines(&expected));
            if forms.iter().any(|form| sorted_lines(form) != found_lines) {
                return Ok(Verdict::Unknown("the Debug form of the state is another one each time".to_string()));
            }
            if found_lines != expected_lines {
                return Ok(Verdict::Differs(another_state(&found, &expected)));
            }
        }
        probe.whole(&case, &store, &roots)?;
        Ok(Verdict::Same)
    }
}

/// Number of times that an unexpected state is read again, to tell whether equal states print in the same order.
const READS: usize = 64;

fn another_state(found: &str, expected: &str) -> String {
    format!(
        "this process recovers the image, and a fresh process comes to another state: an operation, or `read`, relies on what is \
         only in memory, for example in a static; - in the fresh process, + in this one:{}",
        difference_of_lines(found, expected)
    )
}

fn sorted_lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}
