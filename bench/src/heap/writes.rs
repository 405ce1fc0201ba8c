//! Bare cost of a log's writes: a given number of bytes per second, written every few milliseconds by a thread that does
//! nothing else. The slowdown of plain memory meanwhile shows which part of a log's cost is the machine's. No part of
//! Cedrat runs here.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::disk::{BLOCK_LEN, Block, Ring};
use crate::systems::Result;

/// Interval at which a log is written, although it is not full.
const EVERY: Duration = Duration::from_millis(5);

/// Blocks of the file that is written cyclically.
const BLOCKS: u64 = (256 << 20) / BLOCK_LEN as u64;

/// Maximum length of a write.
const WRITE_BLOCKS_MAX: usize = (1 << 20) / BLOCK_LEN;

/// A file to write to.
pub(super) struct Writes {
    ring: Ring,
    zeros: Vec<Block>,
}

impl Writes {
    pub(super) fn to_file_in(dir: &Path) -> Result<Writes> {
        let ring = Ring::create(&dir.join("writes"), BLOCKS)?;
        Ok(Writes { ring, zeros: vec![Block::ZERO; WRITE_BLOCKS_MAX] })
    }

    /// Returns the result of `work`, which runs while `bytes_per_s` are written, and the longest time until a byte was
    /// durable.
    pub(super) fn beside<T>(&self, bytes_per_s: f64, work: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let writer = scope.spawn(|| self.write(bytes_per_s, &over));
            let done = work();
            over.store(true, Ordering::Relaxed);
            let longest = writer.join().map_err(|_| "the writing thread panicked")??;
            Ok((done?, longest))
        })
    }

    /// Writes the accumulated bytes at intervals of [`EVERY`]. Returns the longest time from one wake-up to the end of the
    /// writes that the next one caused.
    fn write(&self, bytes_per_s: f64, over: &AtomicBool) -> Result<Duration> {
        let began = Instant::now();
        let (mut written, mut looked, mut longest) = (0, began, Duration::ZERO);
        while !over.load(Ordering::Relaxed) {
            // The interval between two writes, as of a log that gathers records; the work under measurement runs meanwhile.
            thread::sleep(EVERY);
            let now = Instant::now();
            let due = ((now - began).as_secs_f64() * bytes_per_s) as u64 / BLOCK_LEN as u64;
            while written < due {
                let count = (due - written).min(WRITE_BLOCKS_MAX as u64);
                self.ring.write(written, &self.zeros[..count as usize])?;
                written += count;
            }
            longest = longest.max(looked.elapsed());
            looked = now;
        }
        Ok(longest)
    }
}
