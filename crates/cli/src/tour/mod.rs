//! `cedrat tour`: words are counted in a store that is killed again and again.
//!
//! This process only watches. A working process ([`worker`]) opens the store, which is recovering, and
//! counts on several threads; it is killed with SIGKILL at points chosen by its progress
//! ([`supervisor`]), and started again, until everything is counted. Then the store's counts are
//! compared with a plain count ([`plain`]).

mod files;
mod plain;
mod protocol;
mod report;
mod store;
mod supervisor;
mod words;
mod worker;

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

pub(crate) use protocol::WORKER;
pub(crate) use store::Increment;
pub(crate) use worker::work;

use crate::arguments::Tour;
use crate::output::{Context, Failure, Outcome, fail, note, progress};
use files::Text;
use report::Report;
use store::WordStore;

/// The list of pieces, in the tour's folder.
const TEXT: &str = "text.json";

/// The store, in the tour's folder.
const STORE: &str = "store";

/// The folder in which a tour takes place; a temporary one disappears with it.
enum Place {
    Temporary(tempfile::TempDir),
    Kept(PathBuf),
}

impl Place {
    fn choose(keep: Option<&Path>) -> Result<Place, Failure> {
        match keep {
            None => Ok(Place::Temporary(tempfile::Builder::new().prefix("cedrat-tour-").tempdir()?)),
            Some(path) => {
                fs::create_dir(path).while_doing(path.display())?;
                Ok(Place::Kept(path.to_path_buf()))
            }
        }
    }

    fn path(&self) -> &Path {
        match self {
            Place::Temporary(folder) => folder.path(),
            Place::Kept(path) => path,
        }
    }
}

/// The watching process.
pub(crate) fn tour(arguments: &Tour) -> Outcome {
    let here = [PathBuf::from(".")];
    let paths = if arguments.paths.is_empty() { &here[..] } else { &arguments.paths[..] };
    let text = Text::find(paths)?;
    for file in &text.left_out {
        note(format_args!("cedrat: left out {file}"));
    }
    let place = Place::choose(arguments.keep.as_deref())?;
    write_text(place.path(), &text)?;

    let threads = arguments.threads.map_or_else(default_threads, |n| n as usize);
    let pieces = text.pieces.len() as u64;
    let bar = progress(pieces, "counting in transactions");
    let course = supervisor::supervise(place.path(), pieces, threads, arguments.kills, &bar)?;
    bar.finish_and_clear();
    let (words, distinct_words) = compare(&place.path().join(STORE), &text)?;
    let report = Report::new(text.files, words, distinct_words, &course);
    report.print(arguments.json)
}

/// Compares the store's counts with a plain count. Returns how many words there are, and how many different
/// ones.
fn compare(directory: &Path, text: &Text) -> Result<(u64, u64), Failure> {
    let store = WordStore::open(directory).while_doing("opening the store to compare it")?;
    let mut distinct = 0;
    let mut txn = store.store().begin();
    let words = plain::count(text, |share| {
        distinct += share.len() as u64;
        for (word, expected) in share {
            let counted = store.count_of(&mut txn, &word)?;
            if counted != expected {
                return differs(text, format!("{word:?} occurs {expected} times, the store has {counted}"));
            }
        }
        Ok(())
    })?;
    let counted = store.words_counted(&mut txn)?;
    if counted != distinct {
        return differs(text, format!("there are {distinct} different words, the store has {counted}"));
    }
    txn.rollback()?;
    store.close()?;
    Ok((words, distinct))
}

/// The counts are not equal: because a file was changed under the tour, or because something is wrong.
fn differs<T>(text: &Text, what: String) -> Result<T, Failure> {
    match text.changed().first() {
        Some(file) => fail(format!("{} was changed while its words were counted; run the tour again", file.display())),
        None => fail(format!("the counts differ: {what}")),
    }
}

fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(2, |n| (2 * n.get()).min(8))
}

fn write_text(folder: &Path, text: &Text) -> Outcome {
    let mut file = BufWriter::new(File::create(folder.join(TEXT))?);
    serde_json::to_writer(&mut file, text)?;
    file.flush()?;
    Ok(())
}

fn read_text(folder: &Path) -> Result<Text, Failure> {
    let path = folder.join(TEXT);
    let file = File::open(&path).while_doing(path.display())?;
    serde_json::from_reader(BufReader::new(file)).while_doing(path.display())
}
