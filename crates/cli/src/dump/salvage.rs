//! `cedrat salvage`: all that can be read from damaged files, in a new store.

use std::collections::BTreeSet;
use std::io::{BufReader, BufWriter};

use cedrat::heap::WORD_LEN;
use cedrat::media::{Media, OpenMode};
use cedrat::pages::PageId;
use cedrat::structures::{Kind, Named};
use cedrat_heap::HeapInfo;
use cedrat_objects::salvage::{self as of_objects, GraphPart};
use cedrat_pages::PAGE_FILE;
use cedrat_structures::salvage::{self as of_structures, Claims, Walked};
use cedrat_txn::CATALOGUE;
use serde::Serialize;

use super::line::{Hex, Line, Reader, VERSION, Word, Writer};
use super::load::{self, Report as Loaded};
use super::source::Source;
use super::spool::Spool;
use super::unfinished::Unfinished;
use super::{Dumped, dumped_kind, place, words_in};
use crate::arguments::Salvage;
use crate::disks::Disks;
use crate::look;
use crate::output::{self, Context, Failure, Outcome, fail, grouped, plain};

/// Maximum number of losses that are named one by one.
const LOSSES_MAX: usize = 1000;

/// The result of a salvage.
#[derive(Debug, Default, Serialize)]
struct Report {
    /// Whether nothing was lost, and the log could be read.
    ok: bool,
    /// Whether the store could be recovered. Otherwise pages and heaps are those of the last checkpoint, or of some moment after it.
    is_recovered: bool,
    /// The reason why the store could not be recovered.
    #[serde(skip_serializing_if = "Option::is_none")]
    recovery_problem: Option<String>,
    structures: Vec<Saved>,
    heaps: Vec<String>,
    /// Structures that only their own program can read.
    skipped: Vec<String>,
    /// Number of references and roots of graphs to lost objects. The references are null, and the roots are not there.
    lost_references: u64,
    /// Number of losses.
    losses: u64,
    /// The first of them.
    lost: Vec<Loss>,
}

/// A structure that was read.
#[derive(Debug, Serialize)]
struct Saved {
    name: String,
    kind: String,
    elements: u64,
    /// Estimate of the elements that are lost.
    lost_elements: u64,
}

/// Something that could not be read.
#[derive(Debug, Serialize)]
struct Loss {
    file: String,
    offset: Option<u64>,
    /// The structure or the heap that has lost it, if that is known.
    of: Option<String>,
    what: String,
    /// Estimate of the elements that are lost.
    elements: Option<u64>,
}

/// A salvage that runs.
struct Salvaging<'s> {
    source: &'s Source,
    claims: Claims,
    to: Dumped<BufWriter<Spool>>,
    report: Report,
    /// The reason why the dump could not be written.
    failed: Option<Failure>,
    /// Damaged pages that no structure has named yet.
    damaged: BTreeSet<PageId>,
}

/// Saves what can be read.
pub(crate) fn salvage(arguments: &Salvage, disks: &Disks) -> Outcome {
    look::is_directory(&arguments.directory)?;
    let to = Unfinished::create(&arguments.to)?;
    let source = Source::open(&arguments.directory, disks)?;
    let media = disks.open(&arguments.directory)?;
    let spool = Spool::create(&*media)?;
    let to_file = Writer::new(BufWriter::new(spool.clone()));
    let dumped = Dumped { to: to_file, lines: 0, structures: 0, heaps: 0, skipped: 0 };
    let report = Report {
        is_recovered: source.is_recovered(),
        recovery_problem: source.problem().map(str::to_owned),
        ..Report::default()
    };
    let (claims, damaged) = scan(&source);
    let has_pages = source.pages() > 0;
    let mut salvaging = Salvaging { source: &source, claims, to: dumped, report, failed: None, damaged };
    if !has_pages {
        let (file, what) = (PAGE_FILE.to_owned(), "all pages: the file has none, or is missing".to_owned());
        salvaging.lose(Loss { file, offset: None, of: None, what, elements: None });
    }
    salvaging.all(&*media)?;
    let mut report = salvaging.report;
    drop(source);
    let loaded = read_back(&to, spool, disks).while_doing("writing what was read to the new store")?;
    report.lost_references = loaded.lost_references;
    report.losses += loaded.problems.len() as u64;
    report.lost.extend(loaded.problems.into_iter().map(|what| Loss {
        file: arguments.to.display().to_string(),
        offset: None,
        of: None,
        what,
        elements: None,
    }));
    to.complete()?;
    report.ok = report.losses == 0 && report.is_recovered;
    print(&report, arguments.json)
}

fn read_back(to: &Unfinished, spool: Spool, disks: &Disks) -> Result<Loaded, Failure> {
    let mut from = Reader::new(BufReader::new(spool));
    from.line()?;
    load::load_into(to, from, disks, true)
}

/// Finds the pages that name their structure, and those that are damaged. Takes 16 bytes of memory for each page.
fn scan(source: &Source) -> (Claims, BTreeSet<PageId>) {
    let (mut claims, mut damaged) = (Claims::new(), BTreeSet::new());
    for id in (0..source.pages()).map(PageId::new) {
        if source.is_used(id) == Some(false) {
            continue;
        }
        match source.page(id) {
            Some(page) => {
                if let Some(root) = of_structures::claimed_root(&page.page_ref()) {
                    claims.entry(root).or_default().push(id);
                }
            }
            None => drop(damaged.insert(id)),
        }
    }
    (claims, damaged)
}

impl Salvaging<'_> {
    /// Writes a dump of all that can be read.
    fn all(&mut self, media: &dyn Media) -> Outcome {
        let store = self.source.store_id().unwrap_or_default();
        self.to.to.line(&Line::Dump { version: VERSION, store: Hex(store.to_vec()), lsn: 0 })?;
        for named in self.names() {
            self.structure(&named)?;
        }
        self.heaps(media)?;
        for page in std::mem::take(&mut self.damaged) {
            self.lose_page(page, None, "a page that no readable structure leads to", None);
        }
        let Dumped { structures, heaps, skipped, .. } = self.to;
        self.to.to.line(&Line::EndOfDump { structures, heaps, skipped })?;
        Ok(self.to.to.flush()?)
    }

    /// Returns the entries of the catalogue. Where it has lost some, roots that no entry has get a name by their page.
    fn names(&mut self) -> Vec<Named> {
        let source = self.source;
        let pages = |page| source.page(page);
        let (mut names, walked) = of_structures::catalogue(&pages, &self.claims, source.is_recovered());
        if walked.lost.is_empty() {
            return names;
        }
        self.note_lost("the catalogue", &walked);
        let mut known: BTreeSet<PageId> = names.iter().map(|named| named.root).collect();
        known.insert(CATALOGUE);
        let mut found = Vec::new();
        for id in (0..source.pages()).map(PageId::new).filter(|&id| source.is_used(id) != Some(false)) {
            let Some(page) = source.page(id) else { continue };
            let page = page.page_ref();
            let kind = of_structures::kind_of_root(&page).or_else(|| of_objects::kind_of_root(&page));
            found.extend(kind.map(|kind| (id, kind)));
        }
        let graphs = found.iter().filter(|(_, kind)| *kind == Kind::Graph);
        known.extend(graphs.flat_map(|&(root, _)| of_objects::parts_of_graph(&pages, root)).collect::<Vec<_>>());
        for (root, kind) in found.into_iter().filter(|(root, _)| !known.contains(root)) {
            names.push(Named { name: format!("lost+found/{root}"), kind, root, schema: 0 });
        }
        names
    }

    fn structure(&mut self, named: &Named) -> Outcome {
        let source = self.source;
        let pages = |page| source.page(page);
        let Some(kind) = dumped_kind(named.kind) else {
            self.to.skipped += 1;
            let kind = named.kind.to_string();
            self.report.skipped.push(format!("{}, {kind}", named.name));
            return Ok(self.to.to.line(&Line::Skipped { name: named.name.clone(), kind })?);
        };
        let element_bytes = match named.kind {
            Kind::ArrayList => match of_structures::element_len(&pages, named.root) {
                Some(len) => Some(len),
                None => return self.lose_structure(named),
            },
            _ => None,
        };
        if named.kind == Kind::Graph && of_objects::parts_of_graph(&pages, named.root).is_empty() {
            return self.lose_structure(named);
        }
        self.to.structures += 1;
        let (name, schema) = (named.name.clone(), named.schema);
        self.to.to.line(&Line::Structure { name: name.clone(), kind, schema, element_bytes })?;
        let walked = self.elements(named, element_bytes.unwrap_or_default());
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        self.to.end()?;
        self.note_lost(&name, &walked);
        let lost_elements = walked.lost_elements();
        self.report.structures.push(Saved {
            name,
            kind: named.kind.to_string(),
            elements: walked.elements,
            lost_elements,
        });
        Ok(())
    }

    /// Writes a line; the first failure is kept, and nothing more is written.
    fn put(to: &mut Dumped<BufWriter<Spool>>, failed: &mut Option<Failure>, line: &Line) {
        if failed.is_none() {
            *failed = to.line(line).err();
        }
    }

    fn elements(&mut self, named: &Named, element_len: u16) -> Walked {
        let Salvaging { source, claims, to, failed, .. } = self;
        let (source, is_recovered) = (*source, source.is_recovered());
        let pages = |page| source.page(page);
        let mut put = |line: &Line| Salvaging::put(to, failed, line);
        let hex = |bytes: &[u8]| Hex(bytes.to_vec());
        let root = named.root;
        match named.kind {
            Kind::HashTable => of_structures::hash_table(&pages, root, claims, is_recovered, &mut |key, value| {
                put(&Line::Entry { key: hex(key), value: hex(value) });
            }),
            Kind::ArrayList => of_structures::array_list(&pages, root, &mut |element| {
                let bytes = element.map_or_else(|| Hex(vec![0; element_len.into()]), hex);
                put(&Line::Element { bytes });
            }),
            Kind::List => of_structures::list(&pages, root, &mut |element| put(&Line::Element { bytes: hex(element) })),
            Kind::PageList => of_structures::page_list(&pages, root, claims, &mut |element| {
                put(&Line::Element { bytes: hex(element) })
            }),
            Kind::Records => of_structures::records(&pages, root, claims, &mut |page, slot, bytes| {
                put(&Line::Record { at: format!("{page}:{slot}"), bytes: hex(bytes) });
            }),
            Kind::Objects => of_objects::objects(&pages, root, claims, &mut |at, bytes| {
                put(&Line::Record { at: place(at), bytes: hex(bytes) });
            }),
            _ => {
                let mut each = |part: GraphPart<'_>| put(&line_of(part, is_recovered));
                of_objects::graph(&pages, root, claims, is_recovered, &mut each)
            }
        }
    }

    fn lose_structure(&mut self, named: &Named) -> Outcome {
        self.lose_page(named.root, Some(&named.name), "the root: the whole structure is lost", None);
        Ok(())
    }

    fn note_lost(&mut self, name: &str, walked: &Walked) {
        let each = walked.elements.div_ceil(walked.pages.max(1));
        for lost in &walked.lost {
            self.lose_page(lost.page, Some(name), lost.what, Some(each));
        }
    }

    fn lose_page(&mut self, page: PageId, of: Option<&str>, what: &str, elements: Option<u64>) {
        self.damaged.remove(&page);
        let (file, offset) = (PAGE_FILE.to_owned(), Some(page.get().saturating_mul(4096)));
        self.lose(Loss { file, offset, of: of.map(str::to_owned), what: what.to_owned(), elements });
    }

    fn lose(&mut self, loss: Loss) {
        self.report.losses += 1;
        if self.report.lost.len() < LOSSES_MAX {
            self.report.lost.push(loss);
        }
    }

    fn heaps(&mut self, media: &dyn Media) -> Outcome {
        let name = "heaps.root";
        if media.open(name, OpenMode::Read).is_err() {
            return Ok(());
        }
        let lost = |what: String| Loss { file: name.into(), offset: None, of: None, what, elements: None };
        let Some(store) = self.source.store_id() else {
            self.lose(lost("the heaps: the name of the store is lost".into()));
            return Ok(());
        };
        match cedrat_heap::look(media, &store) {
            Ok(infos) => infos.iter().try_for_each(|info| self.heap(media, &store, info)),
            Err(error) => {
                self.lose(lost(Failure::from(error).0));
                Ok(())
            }
        }
    }

    fn heap(&mut self, media: &dyn Media, store: &[u8; 16], info: &HeapInfo) -> Outcome {
        self.report.heaps.push(info.name.clone());
        if let Some(recovered) = self.source.store_with_heaps() {
            return self.to.heap(recovered, info).while_doing(&info.name);
        }
        self.to.begin_heap(info, info.size)?;
        let (to, mut losses, mut failed) = (&mut self.to, Vec::new(), None);
        let read = cedrat_heap::read_chunks(media, store, info, &mut |offset, chunk| match chunk {
            Ok(bytes) => {
                let word = |word: &[u8; 8]| u64::from_le_bytes(*word);
                let words: Vec<u64> = bytes.as_chunks().0.iter().map(word).collect();
                let words = &words[..words.len().min((info.size.saturating_sub(offset) / WORD_LEN) as usize)];
                for line in words_in(offset, words) {
                    Salvaging::put(to, &mut failed, &line);
                }
            }
            Err(error) => losses.push(Failure::from(error).0),
        });
        losses.extend(read.err().map(|error| Failure::from(error).0));
        if let Some(failed) = failed {
            return Err(failed);
        }
        self.to.end()?;
        for what in losses {
            let file = format!("heaps/{}.{}", info.file, info.checkpoint & 1);
            let what = format!("words of the heap, which are zero now: {what}");
            self.lose(Loss { file, offset: None, of: Some(info.name.clone()), what, elements: None });
        }
        Ok(())
    }
}

/// The line of a part of a graph. A class that seems to be dropped may have objects, unless all pages are of one moment.
fn line_of(part: GraphPart<'_>, is_recovered: bool) -> Line {
    match part {
        GraphPart::Class(number, definition) => {
            let definition = definition.map(|bytes| Hex(bytes.to_vec()));
            let definition = if is_recovered { definition } else { Some(definition.unwrap_or_default()) };
            Line::Class { number, definition }
        }
        GraphPart::Object(identity, object) => Line::Node {
            identity: Word(identity.get()),
            class: object.class,
            data: Hex(object.data.clone()),
            references: object.references.iter().map(|reference| Word(reference.word())).collect(),
        },
        GraphPart::Root(name, to) => Line::Root { name: name.to_owned(), to: Word(to.word()) },
    }
}

fn print(report: &Report, json: bool) -> Outcome {
    if json {
        output::json(report)?;
    } else {
        print_rows(report)?;
    }
    match report.losses {
        0 if report.is_recovered => Ok(()),
        0 => fail("the log could not be read, so the newest commits may be lost; the rest is saved"),
        losses => fail(format!("{} parts of the store are lost, and the rest is saved", grouped(losses))),
    }
}

fn print_rows(report: &Report) -> Outcome {
    let state = match &report.recovery_problem {
        None => "as recovery leaves it".into(),
        Some(why) => format!("as it lies in the files, without the log: {why}"),
    };
    let mut rows = vec![("store", state), ("structures", report.structures.len().to_string())];
    for Saved { name, kind, elements, lost_elements } in &report.structures {
        let lost = match lost_elements {
            0 => String::new(),
            lost => format!(", about {} are lost", grouped(*lost)),
        };
        rows.push(("", format!("{}, {kind}: {} elements{lost}", plain(name), grouped(*elements))));
    }
    rows.push(("heaps", report.heaps.len().to_string()));
    rows.extend(report.heaps.iter().map(|heap| ("", heap.clone())));
    rows.extend(
        report.skipped.iter().map(|skipped| ("skipped", format!("{skipped}: only its own program can read it"))),
    );
    for loss in &report.lost {
        let at = loss.offset.map_or_else(String::new, |offset| format!(", byte {offset}"));
        let of = loss.of.as_ref().map_or_else(String::new, |of| format!(" of {}", plain(of)));
        let about =
            loss.elements.map_or_else(String::new, |elements| format!(", about {} elements", grouped(elements)));
        rows.push(("lost", format!("{}{at}: {}{of}{about}", loss.file, loss.what)));
    }
    if report.losses > report.lost.len() as u64 {
        rows.push(("lost", format!("{} in all", grouped(report.losses))));
    }
    output::rows(&rows)
}
