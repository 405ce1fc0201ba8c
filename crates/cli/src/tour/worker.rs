//! The working process of a tour: opens the store, counts what is not counted yet, says what it did.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use cedrat::txn::Error;

use super::files::Text;
use super::plain::{self, Counts};
use super::protocol::{Event, Opened};
use super::store::WordStore;
use super::{STORE, read_text};
use crate::arguments::TourWorker;
use crate::output::{self, Context, Failure, Outcome};
use crate::threads::spawn;

/// Shared state of the threads of a working process.
struct Work<'a> {
    store: &'a WordStore,
    text: &'a Text,
    /// The pieces that this process has to count.
    to_do: Vec<u64>,
    /// Number of them that were taken up.
    taken: AtomicU64,
    /// The number of the one in which to halt.
    halt_in: Option<u64>,
}

/// Counts until all is counted, or until it is killed.
pub(crate) fn work(arguments: &TourWorker) -> Outcome {
    let text = read_text(&arguments.directory)?;
    let started = Instant::now();
    let store = WordStore::open(&arguments.directory.join(STORE)).while_doing("opening the store")?;
    let recovery = store.store().recovery();
    let done: BTreeSet<u64> = store.done()?.into_iter().collect();
    output::json(&Event::Opened(Opened {
        done: done.iter().copied().collect(),
        redone: recovery.winners,
        undone: recovery.losers,
        micros: started.elapsed().as_micros() as u64,
    }))?;
    let work = Work {
        store: &store,
        text: &text,
        to_do: (0..text.pieces.len() as u64).filter(|piece| !done.contains(piece)).collect(),
        taken: AtomicU64::new(0),
        halt_in: arguments.halt_in,
    };
    std::thread::scope(|scope| {
        let threads = (0..arguments.threads).map(|_| spawn(scope, || work.run())).collect::<Result<Vec<_>, Failure>>();
        let threads = threads.inspect_err(|_| work.taken.store(work.to_do.len() as u64, Ordering::Relaxed))?;
        threads.into_iter().try_for_each(|thread| thread.join().expect("a counting thread does not panic"))
    })?;
    store.close()?;
    output::json(&Event::Finished)
}

impl Work<'_> {
    /// One thread's part.
    fn run(&self) -> Outcome {
        loop {
            let number = self.taken.fetch_add(1, Ordering::Relaxed);
            let Some(&piece) = self.to_do.get(number as usize) else {
                return Ok(());
            };
            let mut counts = Counts::new();
            self.text.pieces[piece as usize].each_word(|word| plain::add(&mut counts, word, 1))?;
            let halts = self.halt_in == Some(number);
            self.store.count(piece, &counts, |txn| {
                if halts {
                    // What was done so far must be in the durable log, or there would be nothing to undo.
                    let log = txn.store().log();
                    log.force(log.current_lsn())?;
                    output::json(&Event::Halfway { piece }).map_err(|failure| Error::user(failure.0))?;
                    loop {
                        std::thread::park(); // until the process is killed
                    }
                }
                Ok(())
            })?;
            output::json(&Event::Counted { piece })?;
        }
    }
}
