//! `cedrat space`: the owner of each byte of a store's files.

use std::collections::BTreeMap;
use std::path::Path;

use cedrat::pages::PageId;
use cedrat::txn::Store;
use cedrat_heap::HeapInfo;
use cedrat_media::BLOCK_LEN;
use cedrat_pages::{DOUBLE_WRITE_FILE, PAGE_FILE, PAGE_LEN, WRITTEN_FILE, pages_in_double_write};
use cedrat_txn::{BACKUPS_FILE, CONSUMERS_FILE};
use cedrat_wal::{CONTROL_FILE, LOCK_FILE, SegmentUse};
use serde::Serialize;

use crate::arguments::Space;
use crate::disks::Disks;
use crate::heap;
use crate::info::{File, list};
use crate::look::Looked;
use crate::output::{self, Failure, Outcome, bytes, grouped};
use crate::owners::{Owner, Owners, Structure};
use crate::verify::recovered;

/// Maximum number of unreached pages that are named one by one.
const UNREACHED_MAX: usize = 100;

/// The use of a store's files.
#[derive(Debug, Default, Serialize)]
struct Report {
    /// Whether all could be read, and no structure has a problem. Unreached pages are none.
    ok: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
    /// Bytes of all files. Holes count.
    bytes: u64,
    /// Bytes that they take on the disk. Holes do not count.
    bytes_on_disk: u64,
    /// Bytes that the newest state of the store needs.
    live_bytes: u64,
    /// Bytes of elements of structures, and of allocated blocks of heaps.
    data_bytes: u64,
    owners: Vec<Total>,
    files: Vec<UsedFile>,
    structures: Vec<Structure>,
    /// Structures that only their own program can walk. Unreached pages may be theirs.
    unwalked_structures: Vec<String>,
    unreached: Vec<Unreached>,
    heaps: Vec<heap::Usage>,
}

/// A file, and the owners of its bytes.
#[derive(Debug, Serialize)]
struct UsedFile {
    name: String,
    bytes: u64,
    bytes_on_disk: u64,
    /// They add up to `bytes`.
    parts: Vec<Total>,
}

/// Bytes of one owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Total {
    owner: &'static str,
    /// The name of the structure, the heap, or the partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    bytes: u64,
    is_live: bool,
}

/// An allocated page that no structure has.
#[derive(Debug, Serialize)]
struct Unreached {
    page: u64,
    /// The number of its layout.
    layout: u16,
}

/// The owners of the bytes of a file, in the order in which they were added.
#[derive(Debug, Default)]
struct Parts(Vec<Total>);

impl Parts {
    fn add(&mut self, owner: &'static str, name: Option<&str>, bytes: u64, is_live: bool) {
        if bytes == 0 {
            return;
        }
        let known = self.0.iter_mut().find(|part| part.owner == owner && part.name.as_deref() == name);
        match known {
            Some(part) => part.bytes += bytes,
            None => self.0.push(Total { owner, name: name.map(str::to_owned), bytes, is_live }),
        }
    }
}

/// The files of a store, before its pages are walked.
struct Known {
    files: Vec<File>,
    segments: BTreeMap<String, SegmentUse>,
    /// Pages of the newest batch in the double-write area.
    double_written: u64,
    heaps: Vec<HeapInfo>,
}

impl Known {
    fn of(directory: &Path, disks: &Disks) -> Result<Known, Failure> {
        let looked = Looked::at(directory, disks)?;
        let media = disks.open(directory)?;
        let segments = looked.found.segments()?.into_iter().map(|segment| (segment.file.clone(), segment)).collect();
        let double_written = pages_in_double_write(&*media)?.len() as u64;
        let heaps = cedrat_heap::look(&*media, &looked.found.control().store)?;
        let mut files = Vec::new();
        list(directory, "", &mut files)?;
        Ok(Known { files, segments, double_written, heaps })
    }
}

/// Prints the owners of all bytes of a store.
pub(crate) fn space(arguments: &Space, disks: &Disks) -> Outcome {
    let known = Known::of(&arguments.directory, disks)?;
    let mut report = Report::default();
    let owners = match walk(arguments, disks, &mut report) {
        Ok(owners) => Some(owners),
        Err(Failure(problem)) => {
            report.problems.push(format!("the pages have no owners in this report: {problem}"));
            None
        }
    };
    for file in &known.files {
        let parts = parts_of(file, &known, owners.as_ref());
        let UsedFile { bytes, bytes_on_disk, .. } = UsedFile::of(file, parts, &mut report);
        report.bytes += bytes;
        report.bytes_on_disk += bytes_on_disk;
    }
    report.live_bytes = report.owners.iter().filter(|total| total.is_live).map(|total| total.bytes).sum();
    if let Some(owners) = owners {
        (report.structures, report.unwalked_structures) = (owners.structures, owners.unwalked);
    }
    let elements = report.structures.iter().map(|structure| structure.element_bytes).sum::<u64>();
    report.data_bytes = elements + report.heaps.iter().filter_map(|heap| heap.bytes_allocated).sum::<u64>();
    report.ok = report.problems.is_empty();
    print(&report, arguments.json)
}

/// Recovers the store on an overlay, and walks its heaps and structures.
fn walk(arguments: &Space, disks: &Disks, report: &mut Report) -> Result<Owners, Failure> {
    let recovered = recovered(&arguments.directory, disks)?;
    let store = &recovered.store;
    report.heaps = heap::examine(store, &mut report.problems);
    let owners = Owners::of(store, arguments.class_tag, &mut report.problems)?;
    report.unreached = unreached(store, &owners)?;
    Ok(owners)
}

fn unreached(store: &Store, owners: &Owners) -> Result<Vec<Unreached>, Failure> {
    let pages = (0..store.pool().len_pages()).map(PageId::new);
    let unreached = pages.filter(|&page| owners.owner(page) == Owner::Unreached).take(UNREACHED_MAX);
    // A page that does not verify is shown by `cedrat page`, and has no layout here.
    let layout = |page| store.read(page).map_or(0, |page| page.kind().0);
    Ok(unreached.map(|page| Unreached { page: page.get(), layout: layout(page) }).collect())
}

impl UsedFile {
    /// Adds a file to the report.
    fn of(file: &File, parts: Parts, report: &mut Report) -> UsedFile {
        let sum: u64 = parts.0.iter().map(|part| part.bytes).sum();
        if sum != file.bytes {
            report.problems.push(format!("{} has {} bytes, but {sum} have an owner", file.name, file.bytes));
        }
        let mut totals = Parts(std::mem::take(&mut report.owners));
        for part in &parts.0 {
            totals.add(part.owner, part.name.as_deref(), part.bytes, part.is_live);
        }
        report.owners = totals.0;
        let File { name, bytes, bytes_on_disk } = file.clone();
        let used = || UsedFile { name: name.clone(), bytes, bytes_on_disk, parts: Vec::new() };
        report.files.push(UsedFile { parts: parts.0, ..used() });
        used()
    }
}

fn parts_of(file: &File, known: &Known, owners: Option<&Owners>) -> Parts {
    let mut parts = Parts::default();
    if let Some(segment) = known.segments.get(&file.name) {
        let partition = segment.partition.map(|partition| partition.to_string());
        let name = partition.as_deref();
        let prepared = if name.is_some() { "log, prepared" } else { "log, unused segment" };
        parts.add("log, header", name, segment.header, true);
        parts.add("log, released", name, segment.released, false);
        parts.add("log, for undo and heaps", name, segment.before_redo, true);
        parts.add("log, for redo", name, segment.redo, true);
        // The file may have grown since its use was determined.
        parts.add(prepared, name, file.bytes.saturating_sub(segment.bytes() - segment.prepared), false);
        return parts;
    }
    match file.name.as_str() {
        CONTROL_FILE => parts.add("control", None, file.bytes, true),
        LOCK_FILE => parts.add("lock", None, file.bytes, true),
        CONSUMERS_FILE => parts.add("consumers", None, file.bytes, true),
        BACKUPS_FILE => parts.add("list of backups", None, file.bytes, true),
        WRITTEN_FILE => parts.add("written pages", None, file.bytes, true),
        "heaps.root" => parts.add("heaps, root", None, file.bytes, true),
        DOUBLE_WRITE_FILE => double_write(&mut parts, file.bytes, known.double_written),
        PAGE_FILE => pages(&mut parts, file.bytes, owners),
        name => heap_or_unknown(&mut parts, name, file.bytes, &known.heaps),
    }
    parts
}

fn double_write(parts: &mut Parts, len: u64, pages: u64) {
    let header = (PAGE_LEN as u64).min(len);
    let images = (pages * PAGE_LEN as u64).min(len - header);
    parts.add("double-write, header", None, header, true);
    parts.add("double-write, newest batch", None, images, true);
    parts.add("double-write, reserved", None, len - header - images, false);
}

fn pages(parts: &mut Parts, len: u64, owners: Option<&Owners>) {
    let Some(owners) = owners else { return parts.add("pages, not attributed", None, len, true) };
    let mut counts = BTreeMap::<Owner, u64>::new();
    for page in (0..len / PAGE_LEN as u64).map(PageId::new) {
        *counts.entry(owners.owner(page)).or_default() += PAGE_LEN as u64;
    }
    for (owner, bytes) in counts {
        match owner {
            Owner::SpaceMap => parts.add("pages, space maps", None, bytes, true),
            Owner::Catalogue => parts.add("pages, catalogue", None, bytes, true),
            Owner::Structure(number) => {
                let name = owners.structures.get(number).map(|structure| structure.name.as_str());
                parts.add("pages, structure", name, bytes, true);
            }
            Owner::Unreached => parts.add("pages, unreached", None, bytes, false),
            Owner::Free => parts.add("pages, free", None, bytes, false),
        }
    }
    parts.add("pages, part of a page at the end", None, len % PAGE_LEN as u64, false);
}

/// Attributes a checkpoint of a heap, or a file that no part of the store has.
fn heap_or_unknown(parts: &mut Parts, name: &str, len: u64, heaps: &[HeapInfo]) {
    for heap in heaps {
        let file = |generation: u64| format!("heaps/{}.{generation}", heap.file);
        if name == file(heap.checkpoint & 1) && heap.checkpoint > 0 {
            let headers = (u64::from(heap.chunks) * BLOCK_LEN as u64).min(len);
            let words = (u64::from(heap.chunks) * heap.chunk_len).min(len - headers);
            parts.add("heap, chunk headers", Some(&heap.name), headers, true);
            parts.add("heap, newest checkpoint", Some(&heap.name), words, true);
            return parts.add("heap, behind the checkpoint", Some(&heap.name), len - headers - words, false);
        }
        if (0..2).any(|generation| name == file(generation)) {
            return parts.add("heap, older checkpoint", Some(&heap.name), len, false);
        }
    }
    parts.add("unknown file", Some(name), len, false);
}

fn print(report: &Report, json: bool) -> Outcome {
    if json {
        output::json(report)?;
        return output::ended(&report.problems);
    }
    let share = |part: u64| format!("{:.1} %", 100.0 * part as f64 / report.bytes.max(1) as f64);
    let files = report.files.len();
    let mut rows = vec![
        (
            "files",
            format!("{files} with {}, of which {} are on the disk", bytes(report.bytes), bytes(report.bytes_on_disk)),
        ),
        ("live", format!("{}, {} of the files", bytes(report.live_bytes), share(report.live_bytes))),
        ("data", format!("{}, {} of the files", bytes(report.data_bytes), share(report.data_bytes))),
    ];
    for (index, total) in report.owners.iter().enumerate() {
        let name = total.name.as_ref().map_or_else(String::new, |name| format!(", {name}"));
        let name = if total.owner.starts_with("log") { name.replacen(", ", ", partition ", 1) } else { name };
        let text = format!("{}{name}: {} B, {}", total.owner, grouped(total.bytes), share(total.bytes));
        rows.push((if index == 0 { "owners" } else { "" }, text));
    }
    rows.push(("structures", report.structures.len().to_string()));
    rows.extend(report.structures.iter().map(|structure| ("", text_of(structure))));
    if !report.unreached.is_empty() {
        rows.push(("unreached", text_of_unreached(report)));
    }
    if !report.heaps.is_empty() {
        rows.push(("heaps", report.heaps.len().to_string()));
        rows.extend(report.heaps.iter().map(|heap| ("", heap.text())));
    }
    output::rows(&rows)?;
    output::ended(&report.problems)
}

fn text_of(structure: &Structure) -> String {
    let Structure { name, kind, root, pages, overflow_pages, element_bytes, .. } = structure;
    let of = match structure.elements {
        Some(elements) => format!("{} elements with {}", grouped(elements), bytes(*element_bytes)),
        None => "only its own program can walk it".into(),
    };
    let overflow =
        if *overflow_pages > 0 { format!(", {} of them overflow", grouped(*overflow_pages)) } else { String::new() };
    format!("{name}, {kind}: {} pages from root {root}{overflow}; {of}", grouped(*pages))
}

fn text_of_unreached(report: &Report) -> String {
    let named = report.unreached.iter().map(|unreached| format!("{} (layout {})", unreached.page, unreached.layout));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = if report.unreached.len() == UNREACHED_MAX { ", …" } else { "" };
    let why = if report.unwalked_structures.is_empty() {
        "they were leaked, or belong to a structure without a name".into()
    } else {
        format!("they may belong to {}, which only its own program can walk", report.unwalked_structures.join(", "))
    };
    format!("pages {named}{more}: {why}")
}
