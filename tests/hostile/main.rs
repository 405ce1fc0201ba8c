//! Strange bytes, a bounded number of them: what the fuzz targets do for hours, for a few seconds.
#![forbid(unsafe_code)]

use std::sync::OnceLock;

use cedrat::media::Image;
use cedrat_tests::{hostile, seed};

/// How many inputs each entry point gets.
const INPUTS: u64 = 3000;

fn sample() -> &'static Image {
    static SAMPLE: OnceLock<Image> = OnceLock::new();
    SAMPLE.get_or_init(hostile::sample)
}

/// Calls `take` with random inputs of different lengths; a failure names the input, which repeats it.
///
/// `take` says whether it accepted the input. Both must happen, or the inputs would prove nothing.
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

/// Errors about bytes name a file and a place in it, or at least a file.
fn named(result: Result<u64, String>) -> bool {
    if let Err(error) = &result {
        let names = ["control", "log", "pages", "double-write"];
        assert!(names.iter().any(|name| error.contains(name)), "names no file: {error}");
    }
    result.is_ok()
}

#[test]
fn random_bytes_in_the_log_are_an_error_or_an_end() {
    random_inputs(60, |input| named(hostile::log_reader(sample(), input)));
}

#[test]
fn random_bytes_in_the_control_file_are_an_error_or_harmless() {
    random_inputs(60, |input| named(hostile::control_file(sample(), input)));
}

#[test]
fn random_bytes_anywhere_in_a_store_are_an_error_or_harmless() {
    random_inputs(60, |input| named(hostile::store(sample(), input)));
}

#[test]
fn random_bytes_are_no_page_that_breaks_its_reader() {
    random_inputs(5000, |input| hostile::page_reader(input) > 1);
}

#[test]
fn random_bytes_are_no_commit_that_breaks_a_graph() {
    static SAMPLE: OnceLock<Image> = OnceLock::new();
    let sample = || SAMPLE.get_or_init(hostile::graph_sample);
    random_inputs(40, |input| hostile::graph_commit(sample(), input).is_ok());
    // What makes sense is taken: were it not, all others would be refused for the wrong reason.
    assert!(hostile::graph_commit(sample(), &[1]).is_ok());
}

#[test]
fn the_sample_itself_is_sound() {
    // Were it not, every changed one would be refused for the wrong reason. The unfinished transaction is undone.
    assert_eq!(hostile::store(sample(), &[]), Ok(80));
    assert!(hostile::log_reader(sample(), &[]).expect("whole") > 100);
}
