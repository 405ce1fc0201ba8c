//! `cedrat heap verify`: heaps are loaded as recovery would leave them, and their accounts walked.

use std::path::Path;

use cedrat::txn::Store;
use serde::Serialize;

use crate::arguments::HeapVerify;
use crate::look::Looked;
use crate::output::{self, Failure, Outcome, bytes, fail, grouped};
use crate::verify::recovered;

/// What a verification found.
#[derive(Debug, Default, Serialize)]
struct Verdict {
    /// Whether everything is as it should be.
    ok: bool,
    /// Why it is not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
    /// Words that the log has beyond the checkpoints.
    words_replayed: u64,
    heaps: Vec<Usage>,
}

/// A heap that was loaded, and walked if it keeps account of blocks.
#[derive(Debug, Serialize)]
pub(crate) struct Usage {
    name: String,
    bytes: u64,
    /// Allocated blocks; none if the heap does not keep account of them.
    blocks: Option<u64>,
    bytes_allocated: Option<u64>,
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
pub(crate) fn verify(arguments: &HeapVerify) -> Outcome {
    drop(Looked::at(&arguments.directory)?);
    let mut verdict = Verdict::default();
    if let Err(Failure(problem)) = judge(&arguments.directory, &mut verdict) {
        verdict.problems.push(problem);
    }
    verdict.ok = verdict.problems.is_empty();
    report(&verdict, arguments.json)
}

fn judge(directory: &Path, verdict: &mut Verdict) -> Outcome {
    let recovered = recovered(directory)?;
    verdict.words_replayed = recovered.store.recovery().heap_words;
    verdict.heaps = examine(&recovered.store, &mut verdict.problems);
    Ok(())
}

fn report(verdict: &Verdict, json: bool) -> Outcome {
    if json {
        output::json(verdict)?;
    } else {
        let mut rows = vec![("recovery", format!("{} words to replay", grouped(verdict.words_replayed)))];
        rows.push(("heaps", verdict.heaps.len().to_string()));
        rows.extend(verdict.heaps.iter().map(|heap| ("", heap.text())));
        rows.push(("verdict", if verdict.ok { "sound" } else { "not sound" }.to_string()));
        output::rows(&rows)?;
    }
    match &verdict.problems[..] {
        [] => Ok(()),
        problems => fail(problems.join("\ncedrat: ")),
    }
}
