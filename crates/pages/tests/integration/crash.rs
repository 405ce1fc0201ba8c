//! Every crash of a workload that writes pages home: redo must be able to repair the state that a crash leaves.

use std::collections::{BTreeMap, HashSet};

use cedrat_media::{Journal, Loss, Media, SimDisk};
use cedrat_pages::{PAGE_FILE, PAGE_LEN, PageId, PoolOptions, WriteBack, verify};
use cedrat_sync::Arc;
use cedrat_wal::{Log, Lsn};

use crate::fixture::{Fixture, REDO_POINT, options, page};

/// Pages that the workload uses: neighbours, and some far from each other.
const PAGES: [u64; 10] = [0, 1, 2, 3, 7, 8, 20, 21, 40, 63];

/// A run, with the expected bytes of each page after each record.
struct Run {
    journal: Journal,
    /// In the order of LSNs, from LSN 1 on: page, offset, byte.
    changes: Vec<(PageId, usize, u8)>,
    /// The length of the journal when the workload began.
    begin: usize,
}

/// Changes pages, writes them home in batches, evicts, and repeats that over the homes of the first time.
fn run(options: PoolOptions) -> Run {
    let (disk, fixture) = Fixture::watched(options, 64);
    let begin = disk.journal_len();
    let mut changes = Vec::new();
    let mut set = |number: u64, offset: usize, byte: u8| {
        let lsn = fixture.set(page(number), offset, byte).unwrap();
        changes.push((page(number), offset, byte));
        assert_eq!(lsn.get() as usize, changes.len());
        disk.mark(lsn.get());
    };
    for round in 1..=3u8 {
        for &number in &PAGES {
            // The ends of the page change with its middle, so that a torn page differs from a whole one.
            for offset in [0, 511, 2000, 3999] {
                set(number, offset, round * 10 + (number % 7) as u8);
            }
        }
        fixture.pool.write_back(WriteBack::Below(Lsn::new(u64::from(round) * 40 - 15))).unwrap();
        set(1, 100, round);
        fixture.pool.write_back(WriteBack::Pages(3)).unwrap();
    }
    fixture.pool.write_back(WriteBack::Below(Lsn::MAX)).unwrap();
    drop(fixture);
    Run { journal: disk.journal(), changes, begin }
}

/// Returns the pages after the first `records` records.
fn model(changes: &[(PageId, usize, u8)], records: usize) -> BTreeMap<(PageId, usize), u8> {
    changes[..records].iter().map(|&(page, offset, byte)| ((page, offset), byte)).collect()
}

fn losses(at: usize) -> impl Iterator<Item = Loss> {
    let torn = [0b1, 0b1000_0000, 0b1111, 0b1010_1010, !0 << 3].into_iter().map(Loss::TornLast);
    let random = (0..40).map(move |seed| Loss::Random(seed * 1000 + at as u64));
    [Loss::Everything, Loss::Nothing].into_iter().chain(torn).chain(random)
}

/// E11.4 seen from outside: returns a page at home that is newer than the log's end.
fn pages_ahead_of_the_log(disk: &SimDisk) -> Option<String> {
    let media: Arc<dyn Media> = Arc::new(SimDisk::from_image(disk.image()));
    let end = Log::look(&media).expect("a crash never makes a log unreadable").end_lsn();
    let home = disk.image().file(PAGE_FILE)?;
    for (number, bytes) in home.chunks_exact(PAGE_LEN).enumerate() {
        let bytes: &[u8; PAGE_LEN] = bytes.try_into().unwrap();
        let lsn = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
        if verify(bytes, page(number as u64)).is_ok() && lsn >= end.get() {
            return Some(format!("page {number} is at LSN {lsn}, the log ends before {end}"));
        }
    }
    None
}

/// Returns the newest redo point that a checkpoint could have made durable before the crash.
fn redo_point(run: &Run, at: usize) -> Lsn {
    let noted = run.journal.marks_before(at).iter().rev().find(|mark| mark.label & REDO_POINT != 0);
    Lsn::new(noted.map_or(1, |mark| mark.label & !REDO_POINT))
}

/// Recovers the state after a crash and compares every page with the model.
fn check(run: &Run, disk: SimDisk, options: PoolOptions, redo_point: Lsn) -> u64 {
    let media: Arc<dyn Media> = Arc::new(disk);
    let end = Log::look(&media).unwrap().end_lsn();
    let fixture = Fixture::recovered(&media, options, redo_point);
    let records = (end.get() as usize - 1).min(run.changes.len());
    let model = model(&run.changes, records);
    for &number in &PAGES {
        let read = fixture.pool.read(page(number)).unwrap_or_else(|error| panic!("page {number}: {error}"));
        for offset in [0, 100, 511, 2000, 3999] {
            let expected = model.get(&(page(number), offset)).copied().unwrap_or(0);
            assert_eq!(read.body()[offset], expected, "page {number} offset {offset} after {records} records");
        }
    }
    fixture.pool.stats().pages_restored
}

/// E11.3, E11.5: at every point, with every loss.
#[test]
fn crash_leaves_pages_redo_can_mend() {
    let run = run(options(8));
    let (mut states, mut restored) = (HashSet::new(), 0);
    for at in run.begin..=run.journal.len() {
        for loss in losses(at) {
            let disk = run.journal.crash(at, loss);
            if !states.insert(disk.image().hash()) {
                continue;
            }
            if let Some(broken) = pages_ahead_of_the_log(&disk) {
                panic!("E11.4, crash at {at} with {loss:?}: {broken}");
            }
            restored += check(&run, disk, options(8), redo_point(&run, at));
        }
    }
    println!("pages: {} crash states, {restored} torn pages restored", states.len());
    assert!(restored > 50, "the workload tears pages, or this test tests nothing: {restored}");
}

/// A crash while a torn page is being restored, or right after.
#[test]
fn restoring_may_itself_be_cut_short() {
    let run = run(options(8));
    let mut seen = 0;
    for at in (run.begin..=run.journal.len()).step_by(2) {
        let disk = run.journal.crash(at, Loss::Random(at as u64));
        let disk = Arc::new(disk);
        let media: Arc<dyn Media> = disk.clone();
        let fixture = Fixture::recovered(&media, options(8), redo_point(&run, at));
        if fixture.pool.stats().pages_restored == 0 {
            continue;
        }
        drop(fixture);
        seen += 1;
        let journal = disk.journal();
        for again in (0..=journal.len()).step_by(2) {
            check(&run, journal.crash(again, Loss::Random(again as u64)), options(8), redo_point(&run, at));
        }
    }
    assert!(seen > 3, "{seen}");
}

/// Without the log forced first, some crash shows a page newer than the log.
#[cfg(feature = "planted-faults")]
#[test]
fn a_skipped_wal_rule_is_caught() {
    let mut options = options(8);
    options.fault = Some(cedrat_pages::Fault::WalRuleSkipped);
    let run = run(options);
    let caught = (run.begin..=run.journal.len())
        .any(|at| losses(at).any(|loss| pages_ahead_of_the_log(&run.journal.crash(at, loss)).is_some()));
    assert!(caught);
}

/// With the recovery LSN late, a redo point passes a record whose page is not home.
#[cfg(feature = "planted-faults")]
#[test]
#[should_panic(expected = "after")]
fn a_late_recovery_lsn_is_caught() {
    let mut faulty = options(8);
    faulty.fault = Some(cedrat_pages::Fault::RecoveryLsnLate);
    let run = run(faulty);
    for at in run.begin..=run.journal.len() {
        check(&run, run.journal.crash(at, Loss::Everything), options(8), redo_point(&run, at));
    }
}
