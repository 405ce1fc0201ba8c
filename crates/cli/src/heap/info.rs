//! `cedrat heap info`: which heaps a store has.

use cedrat_heap::{HeapInfo, look};
use serde::Serialize;

use crate::arguments;
use crate::disks::Disks;
use crate::look::Looked;
use crate::output::{self, Outcome, bytes, grouped};

/// Printed information.
#[derive(Debug, Serialize)]
struct About {
    heaps: Vec<Heap>,
}

/// A heap, as the store's root has it.
#[derive(Debug, Serialize)]
struct Heap {
    number: u32,
    name: String,
    bytes: u64,
    bytes_max: u64,
    /// Whether it keeps account of blocks.
    blocks: bool,
    /// Where in memory it has to begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<u64>,
    chunk_bytes: u64,
    /// The number of the newest whole checkpoint; 0: none yet.
    checkpoint: u64,
    /// The file that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint_file: Option<String>,
    /// Number of chunks.
    chunks: u32,
    /// Commits up to this LSN are in it.
    redo_from: u64,
    /// Commits up to this LSN may be in it.
    reflects: u64,
}

impl From<HeapInfo> for Heap {
    fn from(info: HeapInfo) -> Heap {
        let file = format!("heaps/{}.{}", info.file, info.checkpoint & 1);
        Heap {
            number: info.number,
            name: info.name,
            bytes: info.size,
            bytes_max: info.size_max,
            blocks: info.blocks,
            address: info.address,
            chunk_bytes: info.chunk_len,
            checkpoint: info.checkpoint,
            checkpoint_file: (info.checkpoint > 0).then_some(file),
            chunks: info.chunks,
            redo_from: info.redo_from.get(),
            reflects: info.reflects.get(),
        }
    }
}

/// Prints what the store's root says of its heaps.
pub(crate) fn info(arguments: &arguments::HeapInfo, disks: &Disks) -> Outcome {
    let Looked { found, .. } = &Looked::at_any(&arguments.directory, disks)?;
    let media = disks.open(&arguments.directory)?;
    let heaps = look(&*media, &found.control().store)?;
    let about = About { heaps: heaps.into_iter().map(Heap::from).collect() };
    if arguments.json {
        return output::json(&about);
    }
    output::rows(&[("heaps", about.heaps.len().to_string())])?;
    about.heaps.iter().try_for_each(print)
}

fn print(heap: &Heap) -> Outcome {
    let size = format!("{}, may grow to {}", bytes(heap.bytes), bytes(heap.bytes_max));
    let checkpoint = match &heap.checkpoint_file {
        Some(file) => {
            format!("number {}, {} chunks of {}, in {file}", heap.checkpoint, heap.chunks, bytes(heap.chunk_bytes))
        }
        None => "none yet".into(),
    };
    output::rows(&[
        ("", String::new()),
        ("heap", heap.name.clone()),
        ("size", size),
        ("blocks", if heap.blocks { "it keeps account of them" } else { "the program's own" }.into()),
        ("checkpoint", checkpoint),
        ("redo from", format!("behind LSN {}", grouped(heap.redo_from))),
    ])
}
