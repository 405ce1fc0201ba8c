//! The bare cost of a log's writes: so many bytes a second, written every few milliseconds by a thread that does nothing else. What
//! plain memory loses beside it tells how much of a log's cost is the machine's. No part of Cedrat runs here.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::disk::{BLOCK_LEN, Block, Ring};
use crate::systems::Result;

/// A log is written so often, though it is not full.
const EVERY: Duration = Duration::from_millis(5);

/// Blocks of the file that is written round and round.
const BLOCKS: u64 = (256 << 20) / BLOCK_LEN as u64;

/// The longest write.
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

    /// What `work` returns, while `bytes_per_s` are written beside it, and for how long a byte waited to be durable, at most.
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

    /// Every [`EVERY`] writes what has come together since. Returns the longest time from a look to the end of the writes that the
    /// next one asked for.
    fn write(&self, bytes_per_s: f64, over: &AtomicBool) -> Result<Duration> {
        let began = Instant::now();
        let (mut written, mut looked, mut longest) = (0, began, Duration::ZERO);
        while !over.load(Ordering::Relaxed) {
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
