//! `cedrat verify`: everything is read and checked, and nothing changed.

use std::path::Path;
use std::sync::Arc;

use cedrat::graph::{self, Graph};
use cedrat::media::Media;
use cedrat::objects::{self, Objects};
use cedrat::structures::{Catalogue, Checked, Kind, Named, check_named};
use cedrat::txn::{BackupChain, Options, Progress, Reader, ReaderFiles, RestoreTarget, Store, Txn, View, open_as_of};
use cedrat::wal::Lsn;
use cedrat_heap::HeapInfo;
use cedrat_media::Overlay;
use cedrat_pages::{DOUBLE_WRITE_FILE, PAGE_FILE};
use cedrat_txn::check_backup;
use cedrat_wal::Log;
use indicatif::ProgressBar;
use serde::Serialize;
use tempfile::TempDir;

use crate::arguments::{BackupVerify, Moment, Read, Verify};
use crate::disks::{self, Disks};
use crate::heap;
use crate::java::{CONSTANT, Classes};
use crate::look::{self, Looked};
use crate::output::{self, Context, Failure, Outcome, grouped, progress};

/// Maximum number of damaged pages that are named one by one.
const DAMAGES_MAX: u64 = 100;

/// Result of a verification.
#[derive(Debug, Default, Serialize)]
struct Verdict {
    /// Whether everything is as it should be.
    ok: bool,
    /// Why it is not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
    /// The LSN to which a backup, or as of which a store, was checked. Of a store that another process has open, the newest one.
    #[serde(skip_serializing_if = "Option::is_none")]
    up_to: Option<u64>,
    /// Whether a backup was opened since it was made, so that only what is in use was checked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    was_opened: bool,
    /// Records of the log that recovery would read.
    log_records: u64,
    /// Changes that recovery would repeat.
    redone: u64,
    /// Transactions that recovery would undo.
    undone_transactions: u64,
    /// In-doubt transactions. They are rolled back before the store is walked.
    in_doubt: u64,
    /// Pages that did not verify at home, and have a copy in the double-write area: the next opening of the store repairs them.
    repaired_pages: Vec<u64>,
    /// Pages in use.
    pages: u64,
    /// Named structures.
    structures: Vec<Structure>,
    /// Heaps.
    heaps: Vec<heap::Usage>,
}

/// A structure that was walked.
#[derive(Debug, Serialize)]
struct Structure {
    name: String,
    kind: String,
    /// None if only the application that made it can walk it.
    elements: Option<u64>,
    pages: Option<u64>,
}

/// Checks each byte of a backup, and walks it; with an archive, also the store that is restored to the archive's end.
pub(crate) fn verify_backup(arguments: &BackupVerify, disks: &Disks) -> Outcome {
    let archive = arguments.archive.as_deref();
    arguments.backups.iter().map(|backup| backup.as_path()).chain(archive).try_for_each(look::is_directory)?;
    let mut verdict = Verdict::default();
    let problem = examine_backup(arguments, disks, &mut verdict).err();
    verdict.problems.extend(problem.map(|Failure(problem)| problem));
    verdict.ok = verdict.problems.is_empty();
    report(&verdict, arguments.json)
}

fn examine_backup(arguments: &BackupVerify, disks: &Disks, verdict: &mut Verdict) -> Outcome {
    let archive = arguments.archive.as_deref().map(|archive| disks.open(archive)).transpose()?;
    let [full, increments @ ..] = &arguments.backups[..] else { return output::fail("name a backup") };
    let increments = increments.iter().map(|increment| disks.open(increment)).collect::<Result<Vec<_>, _>>()?;
    let chain = BackupChain::open(&disks.open(full)?, &increments).while_doing(full.display())?;
    let backup = chain.media();
    let checked = check_backup(backup, archive.as_ref()).while_doing(full.display())?;
    verdict.problems.extend(checked.problems.iter().map(ToString::to_string));
    verdict.was_opened = checked.was_opened;
    verdict.up_to = Some(checked.up_to.get());
    // What was restored has damage of the backup as well.
    if !verdict.problems.is_empty() {
        return Ok(());
    }
    examine(&recovered_over(backup, |_| Ok(()))?.without_prepared()?, arguments.class_tag, verdict)?;
    if let Some(archive) = archive.filter(|_| verdict.problems.is_empty()) {
        let (restored, lsn, _) = viewed(backup, Some(archive), RestoreTarget::Newest)?;
        *verdict = Verdict { was_opened: verdict.was_opened, up_to: Some(lsn.get()), ..Verdict::default() };
        examine(&restored, arguments.class_tag, verdict).while_doing(format!("restoring to LSN {lsn}"))?;
        verdict.problems.iter_mut().for_each(|problem| *problem = format!("restored to LSN {lsn}: {problem}"));
    }
    Ok(())
}

/// Opens a store as it was at a moment, from a backup and an archive, and returns the LSN as of which it is.
fn viewed(
    backup: &Arc<dyn Media>,
    archive: Option<Arc<dyn Media>>,
    moment: RestoreTarget,
) -> Result<(Recovered, Lsn, Arc<dyn Media>), Failure> {
    let scratch = tempfile::tempdir()?;
    let bar = progress(0, "recovering");
    let disk = disks::scratch(&**backup, scratch.path())?;
    let view = View { backup: Arc::clone(backup), archive, moment, scratch: Arc::clone(&disk) };
    let options = Options { progress: Some(on(&bar)), ..looking() };
    let (store, lsn) = open_as_of(&view, options, crate::registry()).while_doing("restoring the backup")?;
    bar.finish_and_clear();
    Ok((Recovered { store, _scratch: Some(scratch) }, lsn, disk))
}

/// A store to be read: as recovery leaves it, or as it was at a moment.
pub(crate) struct ToRead {
    pub(crate) recovered: Recovered,
    /// The LSN at which the log ends, or as of which the store is.
    pub(crate) lsn: Lsn,
    pub(crate) heaps: Vec<HeapInfo>,
}

impl ToRead {
    /// Opens what the arguments name. Nothing of it is changed.
    pub(crate) fn open(read: &Read, disks: &Disks) -> Result<ToRead, Failure> {
        let Some(Moment(moment)) = read.as_of else {
            let directory = read.directory.as_deref().unwrap_or(Path::new("."));
            if look::is_open_elsewhere(directory, disks)? {
                return ToRead::beside(directory, disks);
            }
            // A directory without a store is refused before anything is prepared for it.
            let (store, lsn) = {
                let Looked { found, .. } = Looked::at(directory, disks)?;
                (found.control().store, found.end_lsn())
            };
            let recovered = recovered(directory, disks)?;
            let heaps = cedrat_heap::look(&*disks.open(directory)?, &store)?;
            return Ok(ToRead { recovered, lsn, heaps });
        };
        let folders = read.backup.iter().map(|backup| backup.as_path()).chain(read.archive.as_deref());
        folders.into_iter().try_for_each(look::is_directory)?;
        let backups = read.backup.iter().map(|backup| disks.open(backup)).collect::<Result<Vec<_>, _>>()?;
        let [full, increments @ ..] = &backups[..] else { return output::fail("name a backup") };
        let chain = BackupChain::open(full, increments).while_doing("reading the backups")?;
        let archive = read.archive.as_deref().map(|archive| disks.open(archive)).transpose()?;
        let (recovered, lsn, scratch) = viewed(chain.media(), archive, moment)?;
        let store = recovered.store.log().control().store;
        let heaps = cedrat_heap::look(&*scratch, &store)?;
        Ok(ToRead { recovered, lsn, heaps })
    }
}

impl ToRead {
    /// Opens a store that another process has open, as of its newest record, with a copy of all its pages.
    fn beside(directory: &Path, disks: &Disks) -> Result<ToRead, Failure> {
        let bar = progress(0, "copying the store, which is open elsewhere");
        let files = ReaderFiles { copies_pages: true, ..cedrat::reader_files(directory, std::env::temp_dir()) };
        let options = disks.options(Options { progress: Some(on(&bar)), ..looking() });
        let reader = Reader::open(files, options, crate::registry()).while_doing("reading beside another process")?;
        bar.finish_and_clear();
        let (store, lsn) = (reader.store(), reader.lsn());
        let heaps = cedrat_heap::look(&*reader.media(), &store.log().control().store)?;
        Ok(ToRead { recovered: Recovered { store, _scratch: None }, lsn, heaps })
    }
}

/// Verifies a store.
pub(crate) fn verify(arguments: &Verify, disks: &Disks) -> Outcome {
    let mut is_beside = false;
    if let Some(directory) = &arguments.read.directory {
        // A directory without a store has no verdict.
        is_beside = Looked::at_any(directory, disks)?.is_open_elsewhere();
    }
    let mut verdict = Verdict::default();
    let examined = ToRead::open(&arguments.read, disks).and_then(|read| {
        verdict.up_to = (is_beside || arguments.read.as_of.is_some()).then_some(read.lsn.get());
        examine(&read.recovered, arguments.class_tag, &mut verdict)
    });
    verdict.problems.extend(examined.err().map(|Failure(problem)| problem));
    verdict.ok = verdict.problems.is_empty();
    report(&verdict, arguments.json)
}

/// A store as recovery leaves it, with what recovery has written elsewhere.
pub(crate) struct Recovered {
    pub(crate) store: Store,
    _scratch: Option<TempDir>,
}

/// Opens the store in `directory` without changing it, as [`recovered`] does, or as of its newest record if another process has it open.
pub(crate) fn opened(directory: &Path, disks: &Disks) -> Result<Recovered, Failure> {
    match look::is_open_elsewhere(directory, disks)? {
        true => Ok(ToRead::beside(directory, disks)?.recovered),
        false => recovered(directory, disks),
    }
}

/// Recovers the store in `directory` without changing it, and rolls back prepared transactions where that has written.
pub(crate) fn recovered(directory: &Path, disks: &Disks) -> Result<Recovered, Failure> {
    recovered_in_doubt(directory, disks)?.without_prepared()
}

impl Recovered {
    /// Rolls back prepared transactions. Here only, where nothing is changed: who walks a structure would wait for its locks.
    fn without_prepared(self) -> Result<Recovered, Failure> {
        for branch in self.store.in_doubt()? {
            self.store.prepared(&branch.id)?.rollback().while_doing("rolling back a prepared transaction")?;
        }
        Ok(self)
    }
}

/// Recovers the store in `directory` without changing it. Prepared transactions keep their locks.
pub(crate) fn recovered_in_doubt(directory: &Path, disks: &Disks) -> Result<Recovered, Failure> {
    recovered_over(&disks.open(directory)?, |_| Ok(()))
}

/// Recovers the store in `directory` as if its heaps had been dropped, without changing it.
pub(crate) fn recovered_without_heaps(directory: &Path, disks: &Disks) -> Result<Recovered, Failure> {
    let shared = disks.open(directory)?;
    let store = Log::look(&shared)?.control().store;
    recovered_over(&shared, |overlay| Ok(cedrat_heap::drop_unread(overlay, &store)?))?.without_prepared()
}

fn recovered_over(below: &Arc<dyn Media>, prepare: impl FnOnce(&Overlay) -> Outcome) -> Result<Recovered, Failure> {
    let scratch = tempfile::tempdir()?;
    let overlay = Overlay::new(Arc::clone(below), disks::scratch(&**below, scratch.path())?);
    prepare(&overlay)?;
    recovered_on(Arc::new(overlay), scratch)
}

/// Returns the options of a store that is only looked at.
fn looking() -> Options {
    Options {
        create: false,
        background: false,
        // It would write what is only going to be looked at: of heaps, all that has changed.
        checkpoint_when_opened: false,
        redo_on_demand_bytes: u64::MAX,
        ..Options::default()
    }
}

/// Recovers the store that an overlay shows.
fn recovered_on(overlay: Arc<Overlay>, scratch: TempDir) -> Result<Recovered, Failure> {
    let bar = progress(0, "recovering");
    let options = Options { progress: Some(on(&bar)), ..looking() };
    let store = Store::open(overlay, options, crate::registry()).while_doing("recovering")?;
    bar.finish_and_clear();
    Ok(Recovered { store, _scratch: Some(scratch) })
}

/// Walks all of a recovered store.
fn examine(recovered: &Recovered, class_tag: Option<u8>, verdict: &mut Verdict) -> Outcome {
    let store = &recovered.store;
    let recovery = store.recovery();
    verdict.log_records = recovery.records;
    verdict.redone = recovery.redone;
    verdict.undone_transactions = recovery.losers;
    verdict.in_doubt = recovery.in_doubt;
    verdict.repaired_pages = store.pool().restored_pages().iter().map(|page| page.get()).collect();

    verdict.heaps = heap::examine(store, &mut verdict.problems);
    let mut damages = 0_u64;
    let checked = store.check_beyond(|damaged| {
        damages += 1;
        if damages <= DAMAGES_MAX {
            verdict.problems.push(damaged.to_string());
        }
        Ok(())
    });
    verdict.pages = checked?.pages_allocated;
    if damages > DAMAGES_MAX {
        verdict.problems.push(format!("and {} other pages are damaged", grouped(damages - DAMAGES_MAX)));
    }
    let catalogue = Catalogue::open(store)?;
    let mut txn = store.begin();
    let checked = catalogue.check(&txn)?;
    verdict.problems.extend(checked.problems.into_iter().map(|problem| format!("the catalogue: {problem}")));
    for named in catalogue.list(&mut txn)? {
        let checked = walked(store, &txn, &named, class_tag).unwrap_or_else(|Failure(problem)| {
            verdict.problems.push(problem);
            None
        });
        let (elements, pages) = match checked {
            Some(checked) => {
                let problems = checked.problems.iter().map(|problem| format!("{}: {problem}", named.name));
                verdict.problems.extend(problems);
                (Some(checked.elements), Some(checked.pages.len() as u64))
            }
            None => (None, None),
        };
        verdict.structures.push(Structure { name: named.name, kind: named.kind.to_string(), elements, pages });
    }
    Ok(txn.rollback()?)
}

/// Checks a structure from inside, if it can be walked here.
pub(crate) fn walked(
    store: &Store,
    txn: &Txn,
    named: &Named,
    class_tag: Option<u8>,
) -> Result<Option<Checked>, Failure> {
    match named.kind {
        Kind::Objects => {
            let objects = Objects::open(store, &named.name, objects::Options::default()).while_doing(&named.name)?;
            Ok(Some(objects.check(txn).while_doing(&named.name)?))
        }
        Kind::Graph => {
            let graph = Graph::open(store, &named.name, graph::Options::default()).while_doing(&named.name)?;
            let of_java = || Classes::new(graph.classes()).are_of_java().then_some(CONSTANT);
            Ok(Some(graph.check_with_class_tag(class_tag.or_else(of_java)).while_doing(&named.name)?))
        }
        _ => check_named(txn, named).while_doing(&named.name),
    }
}

/// Shows on `bar` how far recovery is.
fn on(bar: &ProgressBar) -> Arc<dyn Fn(Progress) + Send + Sync> {
    let bar = bar.clone();
    Arc::new(move |progress| {
        let (what, done, of) = match progress {
            Progress::Analysis { done, of } => ("reading the log", done, of),
            Progress::Redo { done, of } => ("repeating history", done, of),
            Progress::Load { done, of } => ("loading heaps", done, of),
            Progress::Undo { done, of } => ("undoing the unfinished", done, of),
            _ => return,
        };
        bar.set_message(what);
        bar.set_length(of);
        bar.set_position(done);
    })
}

fn report(verdict: &Verdict, json: bool) -> Outcome {
    let of_recovery = format!(
        "{} records to read, {} changes to repeat, {} transactions to undo",
        grouped(verdict.log_records),
        grouped(verdict.redone),
        grouped(verdict.undone_transactions)
    );
    let mut rows = vec![("recovery", of_recovery)];
    rows.extend(verdict.up_to.map(|lsn| ("up to LSN", lsn.to_string())));
    if verdict.was_opened {
        rows.push(("opened", "since it was made: bytes that are not in use were not checked".into()));
    }
    if verdict.in_doubt > 0 {
        rows.push((
            "in doubt",
            format!("{} prepared transactions, looked at as if rolled back", grouped(verdict.in_doubt)),
        ));
    }
    if !verdict.repaired_pages.is_empty() {
        let pages: Vec<String> = verdict.repaired_pages.iter().map(u64::to_string).collect();
        rows.push((
            "repaired",
            format!(
                "torn in {PAGE_FILE}, as by a crash, and sound in {DOUBLE_WRITE_FILE}: page {}; the next opening of the store \
                 repairs them in the file",
                pages.join(", ")
            ),
        ));
    }
    rows.push(("pages", grouped(verdict.pages)));
    for structure in &verdict.structures {
        let elements = structure.elements.map(|elements| format!("{} elements", grouped(elements)));
        let elements =
            elements.unwrap_or_else(|| "checked page by page; only its own program can count its elements".to_string());
        rows.push(("", format!("{}, {}: {elements}", structure.name, structure.kind)));
    }
    if !verdict.heaps.is_empty() {
        rows.push(("heaps", verdict.heaps.len().to_string()));
        rows.extend(verdict.heaps.iter().map(|heap| ("", heap.text())));
    }
    output::verdict(verdict, json, &verdict.problems, rows)
}
