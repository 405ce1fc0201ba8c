//! `cedrat heap verify`: heaps are loaded as recovery would leave them, and their accounts walked.

use std::path::Path;

use cedrat::txn::Store;
use cedrat_heap::look_at_chunks;
use serde::Serialize;

use crate::arguments::HeapVerify;
use crate::disks::Disks;
use crate::look::Looked;
use crate::output::{self, Failure, Outcome, bytes, grouped};
use crate::verify::recovered;

/// Result of a verification.
#[derive(Debug, Default, Serialize)]
struct Verdict {
    /// Whether everything is as it should be.
    ok: bool,
    /// Why it is not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
    checkpoints: Vec<Checkpoint>,
    /// Words that the log has beyond the checkpoints.
    words_replayed: u64,
    heaps: Vec<Usage>,
}

/// The file of a heap's newest checkpoint, chunk by chunk.
#[derive(Debug, Serialize)]
struct Checkpoint {
    heap: String,
    /// Chunks that are as they were written.
    sound: u32,
    /// Chunks that were never written, which are zero.
    never_written: u32,
    /// Chunks that are not as they were written.
    damaged: u32,
}

impl Checkpoint {
    fn text(&self) -> String {
        let Checkpoint { heap, sound, never_written, damaged } = self;
        let of = |chunks: &u32| grouped((*chunks).into());
        format!("{heap}: {} chunks sound, {} damaged, {} never written", of(sound), of(damaged), of(never_written))
    }
}

/// A heap that was loaded, and walked if it keeps account of blocks.
#[derive(Debug, Serialize)]
pub(crate) struct Usage {
    name: String,
    bytes: u64,
    /// Allocated blocks; none if the heap does not keep account of them.
    blocks: Option<u64>,
    pub(crate) bytes_allocated: Option<u64>,
}

impl Usage {
    pub(crate) fn text(&self) -> String {
        let of = |blocks, allocated| format!("{} blocks with {}", grouped(blocks), bytes(allocated));
        let blocks = self.blocks.zip(self.bytes_allocated);
        let used = blocks.map_or("without an account of blocks".into(), |(blocks, allocated)| of(blocks, allocated));
        format!("{}, {}: {used}", self.name, bytes(self.bytes))
    }
}

/// Walks over all heaps of a store that was recovered; adds what is wrong to `problems`.
pub(crate) fn examine(store: &Store, problems: &mut Vec<String>) -> Vec<Usage> {
    let mut found = Vec::new();
    for heap in store.memory().heaps() {
        let mut usage = Usage { name: heap.name().into(), bytes: heap.size(), blocks: None, bytes_allocated: None };
        // A heap whose program uses it from its first byte on keeps no account.
        if heap.first_offset() > 0 {
            match heap.verify() {
                Ok(walked) => (usage.blocks, usage.bytes_allocated) = (Some(walked.blocks), Some(walked.bytes)),
                Err(error) => problems.push(Failure::from(error).0),
            }
        }
        found.push(usage);
    }
    found
}

/// Verifies the heaps of a store.
pub(crate) fn verify(arguments: &HeapVerify, disks: &Disks) -> Outcome {
    let looked = Looked::at(&arguments.directory, disks)?;
    let mut verdict = Verdict::default();
    if let Err(Failure(problem)) = look_at_files(arguments, disks, &looked, &mut verdict) {
        verdict.problems.push(problem);
    }
    drop(looked);
    // Recovery would say the first of them again.
    if verdict.problems.is_empty()
        && let Err(Failure(problem)) = judge(&arguments.directory, disks, &mut verdict)
    {
        verdict.problems.push(problem);
    }
    verdict.ok = verdict.problems.is_empty();
    report(&verdict, arguments.json)
}

fn look_at_files(arguments: &HeapVerify, disks: &Disks, looked: &Looked, verdict: &mut Verdict) -> Outcome {
    let media = disks.open(&arguments.directory)?;
    for looked in look_at_chunks(&*media, &looked.found.control().store)? {
        let read = looked.sound + looked.never_written;
        let damaged = if looked.heap.checkpoint > 0 { looked.heap.chunks - read } else { 0 };
        let (sound, never_written) = (looked.sound, looked.never_written);
        verdict.problems.extend(looked.problems.into_iter().map(|problem| Failure::from(problem).0));
        verdict.checkpoints.push(Checkpoint { heap: looked.heap.name, sound, never_written, damaged });
    }
    Ok(())
}

fn judge(directory: &Path, disks: &Disks, verdict: &mut Verdict) -> Outcome {
    let recovered = recovered(directory, disks)?;
    verdict.words_replayed = recovered.store.recovery().heap_words;
    verdict.heaps = examine(&recovered.store, &mut verdict.problems);
    Ok(())
}

fn report(verdict: &Verdict, json: bool) -> Outcome {
    let mut rows = vec![("checkpoints", verdict.checkpoints.len().to_string())];
    rows.extend(verdict.checkpoints.iter().map(|checkpoint| ("", checkpoint.text())));
    rows.push(("recovery", format!("{} words to replay", grouped(verdict.words_replayed))));
    rows.push(("heaps", verdict.heaps.len().to_string()));
    rows.extend(verdict.heaps.iter().map(|heap| ("", heap.text())));
    output::verdict(verdict, json, &verdict.problems, rows)
}
