//! Hostile bytes, a bounded number of them: a few seconds of the fuzz targets, which run for hours.
#![forbid(unsafe_code)]

use std::sync::OnceLock;

use cedrat::media::Image;
use cedrat_tests::repair::Target;
use cedrat_tests::{hostile, hostile_entries, hostile_objects, seed};

/// Number of inputs for each entry point.
const INPUTS: u64 = 3000;

fn sample() -> &'static Image {
    static SAMPLE: OnceLock<Image> = OnceLock::new();
    SAMPLE.get_or_init(hostile::sample)
}

/// Calls `take` with random inputs of different lengths; a failure names the input, which repeats it.
///
/// `take` returns whether it accepted the input. Both must happen, or the inputs would prove nothing.
fn random_inputs(length_max: u64, take: impl Fn(&[u8]) -> bool) {
    let mut accepted = 0;
    for number in 0..INPUTS {
        let mut random = seed::Random::new(seed::from_environment().wrapping_add(number));
        let length = random.below(length_max);
        let input: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        let run = std::panic::AssertUnwindSafe(|| take(&input));
        match std::panic::catch_unwind(run) {
            Ok(took) => accepted += u64::from(took),
            Err(panic) => {
                eprintln!("input {number} of CEDRAT_SEED={}: {input:?}", seed::from_environment());
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(0 < accepted && accepted < INPUTS, "{accepted} of {INPUTS} inputs were accepted");
}

/// Returns whether an error about bytes names a file and a place in it, or at least a file.
fn named(result: Result<u64, String>) -> bool {
    if let Err(error) = &result {
        let names = ["control", "log", "pages", "double-write", "written"];
        assert!(names.iter().any(|name| error.contains(name)), "names no file: {error}");
    }
    result.is_ok()
}

#[test]
fn random_log_bytes_are_error_or_end() {
    random_inputs(60, |input| named(hostile::log_reader(sample(), input)));
}

#[test]
fn random_control_bytes_are_error_or_harmless() {
    random_inputs(60, |input| named(hostile::control_file(sample(), input)));
}

#[test]
fn random_store_bytes_are_error_or_harmless() {
    random_inputs(60, |input| named(hostile::store(sample(), input)));
}

#[test]
fn random_pages_do_not_break_reader() {
    random_inputs(5000, |input| hostile::page_reader(input) > 1);
}

/// E21.4.
#[test]
fn random_commits_do_not_break_graph() {
    static SAMPLE: OnceLock<Image> = OnceLock::new();
    let sample = || SAMPLE.get_or_init(hostile::graph_sample);
    random_inputs(40, |input| hostile::graph_commit(sample(), input).is_ok());
    // A valid commit is accepted: otherwise all others would be refused for the wrong reason.
    assert!(hostile::graph_commit(sample(), &[1]).is_ok());
}

#[test]
fn the_sample_itself_is_sound() {
    // Otherwise every changed one would be refused for the wrong reason. The unfinished transaction is undone.
    assert_eq!(hostile::store(sample(), &[]), Ok(80));
    assert!(hostile::log_reader(sample(), &[]).expect("whole") > 100);
}

/// Number of inputs with repaired checksums for each target. An opening takes about a millisecond.
const REPAIRED_INPUTS: u64 = 400;

/// Name of the test that a child process runs, and of the environment variable that makes it do so.
const IN_CHILD: &str = "repaired_bytes_in_bounded_memory";
const CHILD_VARIABLE: &str = "CEDRAT_HOSTILE_CHILD";

/// Limit of a child process's address space, in KiB, most of which pools and heaps reserve: memory that grows with hostile
/// lengths exceeds it.
const CHILD_KIB: u64 = 64 << 20;

/// Bytes behind valid checksums: an error or harmless, never a panic, an abort, a hang, or memory without bound.
///
/// The test runs in a process of its own with bounded memory. The last line before a hang or an abort names the input.
#[test]
fn repaired_bytes_in_bounded_memory() {
    if std::env::var_os(CHILD_VARIABLE).is_some() {
        return in_child();
    }
    let itself = std::env::current_exe().expect("this program has a path");
    let script = format!("ulimit -v {CHILD_KIB}; exec \"$0\" --exact {IN_CHILD} --nocapture");
    let child = std::process::Command::new("sh").arg("-c").arg(script).arg(itself).env(CHILD_VARIABLE, "1").output();
    let child = child.expect("sh runs");
    let (said, complained) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    let last = complained.lines().rev().take(30).collect::<Vec<_>>();
    let last = last.into_iter().rev().collect::<Vec<_>>().join("\n");
    assert!(child.status.success(), "{}: {}\n{last}", child.status, said.lines().last().unwrap_or_default());
}

fn in_child() {
    let whole = hostile::whole_sample();
    assert!(hostile::repaired(&whole, None, &[]).is_ok(), "{:?}", hostile::repaired(&whole, None, &[]));
    for target in Target::ALL {
        eprintln!("{target:?}");
        repaired_inputs(&format!("{target:?}"), |input| hostile::repaired(&whole, Some(target), input).is_ok());
    }
    every_head(&whole);
    let graph = hostile::graph_sample();
    repaired_inputs("graph", |input| hostile::repaired_graph(&graph, input).is_ok());
    let objects = hostile_objects::objects_sample();
    // 30 objects and the later one in each, less five that were removed before the checkpoint, and one behind it.
    assert_eq!(hostile_objects::repaired_objects(&objects, &[]), Ok(2 * (30 + 1 - 5 - 1)));
    repaired_inputs("objects", |input| hostile_objects::repaired_objects(&objects, input).is_ok());
    let entries = hostile_entries::entries_sample();
    assert_eq!(hostile_entries::repaired_entries(&entries, Target::Records, &[]), Ok(26));
    for target in hostile_entries::TARGETS {
        repaired_inputs(&format!("entries, {target:?}"), |input| {
            hostile_entries::repaired_entries(&entries, target, input).is_ok()
        });
    }
}

/// Changes each byte of the heads of the newest records, among them those of a prepared transaction and of a loser, to a
/// value with another meaning: no transaction, another kind, another previous record.
fn every_head(sample: &Image) {
    const RECORDS: usize = 24;
    const HEAD_LEN: usize = 7;
    let mut failed = 0;
    for (older, at) in (0..RECORDS).flat_map(|older| (0..HEAD_LEN).map(move |at| (older, at))) {
        for byte in (0..=11).chain([0x7f, 0x83]) {
            eprintln!("head {older} {at} {byte}");
            let run = std::panic::AssertUnwindSafe(|| drop(hostile::repaired_record(sample, older, at, byte)));
            failed += u32::from(std::panic::catch_unwind(run).is_err());
        }
    }
    assert!(failed == 0, "{failed} heads of records panicked");
}

/// Like [`random_inputs`], with one to three changes of six bytes each.
fn repaired_inputs(name: &str, take: impl Fn(&[u8]) -> bool) {
    let mut failed = 0;
    let mut accepted = 0;
    for number in 0..REPAIRED_INPUTS {
        let mut random = seed::Random::new(seed::from_environment().wrapping_add(number));
        let length = 6 * (1 + random.below(3));
        let input: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        eprintln!("{name} {number}: {input:?}");
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| take(&input))) {
            Ok(took) => accepted += u64::from(took),
            Err(_) => failed += 1,
        }
    }
    assert!(failed == 0, "{failed} of {REPAIRED_INPUTS} inputs panicked");
    assert!(0 < accepted && accepted < REPAIRED_INPUTS, "{name}: {accepted} of {REPAIRED_INPUTS} inputs were accepted");
}
