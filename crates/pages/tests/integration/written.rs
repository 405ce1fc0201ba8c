//! The file of written pages: a lost page is not taken for one that was never written (E22).

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cedrat_media::{Call, Durability, Fault, Image, Journal, Kill, Loss, Media, OpenMode, SimDisk};
use cedrat_pages::{PAGE_FILE, PAGE_LEN, PageId, PoolError, WRITTEN_FILE, WriteBack};
use cedrat_sync::Arc;
use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_wal::Lsn;

use crate::fixture::{Fixture, options, page};

/// Pages that the workload uses.
const PAGES: [u64; 6] = [0, 1, 2, 5, 6, 40];
/// Pages that it frees and uses again.
const PUNCHED: [(u64, u64); 2] = [(5, 2), (40, 1)];

/// Marks of this kind carry the redo point that a checkpoint has made durable.
const CHECKPOINT: u64 = 1 << 40;

fn zero(disk: &SimDisk, page: PageId) {
    let file = disk.open(PAGE_FILE, OpenMode::ReadWrite).unwrap();
    disk.write_at(file, page.file_offset(), &[0; PAGE_LEN], Durability::Durable).unwrap();
}

/// Opens the store on a disk without redo.
fn open(image: Image) -> (Arc<SimDisk>, Fixture) {
    let disk = Arc::new(SimDisk::from_image(image));
    let media: Arc<dyn Media> = disk.clone();
    let fixture = Fixture::recovered(&media, options(8), Lsn::MAX);
    (disk, fixture)
}

/// Takes a checkpoint: pages are written home, the redo point is computed, the pages written are noted. Returns the
/// redo point.
fn checkpoint(fixture: &Fixture) -> Result<Lsn, PoolError> {
    fixture.pool.write_back(WriteBack::Below(Lsn::MAX))?;
    let redo_point = fixture.pool.redo_point();
    fixture.pool.note_written()?;
    Ok(redo_point)
}

fn places() -> Vec<(PageId, u64)> {
    PUNCHED.iter().map(|&(first, count)| (page(first), count)).collect()
}

fn is_punched(number: u64) -> bool {
    PUNCHED.iter().any(|&(first, count)| (first..first + count).contains(&number))
}

/// Writes pages, frees them, and writes them anew.
fn work(fixture: &Fixture, disk: &SimDisk, first_round: u8) -> Result<(), PoolError> {
    for round in first_round..first_round + 2 {
        for number in PAGES {
            if is_punched(number) {
                fixture.format(page(number));
            }
            fixture.set(page(number), 10, round)?;
        }
        let redo_point = checkpoint(fixture)?;
        disk.mark(CHECKPOINT | redo_point.get());
        fixture.pool.punch(&places())?;
        fixture.set(page(0), 20, round)?;
        fixture.pool.write_back(WriteBack::Below(Lsn::MAX))?; // the only image in the double-write area
    }
    Ok(())
}

/// Returns the journal of a run, and its length when the work began.
fn run() -> (Journal, usize) {
    let (disk, fixture) = Fixture::simulated(options(8), 64);
    let begin = disk.journal_len();
    work(&fixture, &disk, 1).unwrap();
    drop(fixture);
    (disk.journal(), begin)
}

/// Returns the redo point of the newest checkpoint that ended before the crash.
fn redo_point(journal: &Journal, at: usize) -> Lsn {
    let noted = journal.marks_before(at).iter().rev().find(|mark| mark.label & CHECKPOINT != 0);
    Lsn::new(noted.map_or(1, |mark| mark.label & !CHECKPOINT))
}

fn recovered(image: Image, redo_point: Lsn) -> Fixture {
    let media: Arc<dyn Media> = Arc::new(SimDisk::from_image(image));
    Fixture::recovered(&media, options(8), redo_point)
}

/// E22.2: no page reads as lost that is not.
fn assert_nothing_is_lost(fixture: &Fixture, context: &dyn std::fmt::Display) {
    for number in 0..64 {
        if let Err(error) = fixture.pool.read(page(number)) {
            // A crash may tear a page that is being punched: it is free, and will be formatted.
            let is_torn = is_punched(number) && error.to_string().contains("checksum");
            assert!(is_torn, "E22.2: {context}: {error}");
        }
    }
}

/// E22.1: each zeroed page of `image` is detected, or redone, or restored. Returns the number detected.
fn assert_losses_are_noticed(image: &Image, redo_point: Lsn, context: &dyn std::fmt::Display) -> u64 {
    let sound = recovered(image.clone(), redo_point);
    let mut noticed = 0;
    for number in PAGES.into_iter().filter(|&number| !is_punched(number)) {
        let expected = sound.pool.read(page(number)).unwrap().bytes().to_vec();
        let disk = SimDisk::from_image(image.clone());
        zero(&disk, page(number));
        let media: Arc<dyn Media> = Arc::new(disk);
        match Fixture::try_recovered(&media, options(8), redo_point).and_then(|fixture| {
            let read = fixture.pool.read(page(number))?;
            assert!(read.body()[10..21] == expected[42..53], "E22.1: {context}: page {number} was lost unnoticed");
            Ok(())
        }) {
            Ok(()) => {}
            Err(PoolError::Damaged { offset, damage, .. }) => {
                assert!(offset == number * PAGE_LEN as u64 && damage.what.contains("reads as zeros"), "{damage}");
                noticed += 1;
            }
            Err(other) => panic!("{context}: {other}"),
        }
    }
    noticed
}

/// No checksum proves the length of the file: it must not decide how much an opening reads, and how much memory it takes.
#[test]
fn long_written_file_is_read_in_part() {
    let (disk, fixture) = Fixture::simulated(options(8), 64);
    fixture.set(page(3), 0, 7).unwrap();
    checkpoint(&fixture).unwrap();
    let (disk, _) = (SimDisk::from_image(disk.image()), drop(fixture));
    let file = disk.open(WRITTEN_FILE, OpenMode::ReadWrite).unwrap();
    disk.set_len(file, 1 << 30).unwrap();
    let (disk, fixture) = open(disk.image());
    assert!(disk.calls() < 50_000, "{} calls", disk.calls());
    assert_eq!(fixture.byte(page(3), 0).unwrap(), 7);
    fixture.set(page(63), 0, 8).unwrap();
    checkpoint(&fixture).unwrap();
    drop(fixture);
    assert_eq!(open(disk.image()).1.byte(page(63), 0).unwrap(), 8);
}

#[test]
fn lost_page_is_damage() {
    let (disk, fixture) = Fixture::simulated(options(8), 64);
    fixture.set(page(3), 0, 7).unwrap();
    checkpoint(&fixture).unwrap();
    let (disk_before, image) = (disk.clone(), disk.image());
    for number in 8..30 {
        fixture.set(page(number), 0, 1).unwrap(); // evicts page 3
    }
    zero(&disk_before, page(3));
    let message = fixture.pool.read(page(3)).unwrap_err().to_string();
    assert!(
        message.starts_with("pages, byte 12288: page 3 is damaged at its byte 0: the page was written"),
        "{message}"
    );
    drop(fixture);

    // The newest batch still has an image of the page, so an opening restores it.
    let disk = SimDisk::from_image(image);
    zero(&disk, page(3));
    let (disk, fixture) = open(disk.image());
    assert_eq!((fixture.pool.stats().pages_restored, fixture.byte(page(3), 0).unwrap()), (1, 7));
    fixture.set(page(9), 0, 7).unwrap();
    checkpoint(&fixture).unwrap();
    drop(fixture);
    zero(&disk, page(3));
    let (_disk, fixture) = open(disk.image());
    assert!(fixture.pool.read(page(3)).is_err(), "E22.3: the next batch has no image of it");
    assert_eq!(fixture.pool.read(page(4)).unwrap().lsn(), Lsn::ZERO, "never written");
}

#[test]
fn store_without_the_file_opens() {
    let (disk, fixture) = Fixture::simulated(options(8), 64);
    fixture.set(page(3), 0, 7).unwrap();
    checkpoint(&fixture).unwrap();
    drop(fixture);
    disk.remove(WRITTEN_FILE).unwrap();
    let (disk, fixture) = open(disk.image());
    assert_eq!(fixture.byte(page(3), 0).unwrap(), 7);
    fixture.set(page(3), 0, 8).unwrap();
    checkpoint(&fixture).unwrap();
    fixture.set(page(9), 0, 8).unwrap();
    checkpoint(&fixture).unwrap();
    drop(fixture);
    zero(&disk, page(3));
    let (_disk, fixture) = open(disk.image());
    assert!(fixture.pool.read(page(3)).is_err(), "E22.1: known from its next write on");
}

#[test]
fn damaged_file_is_refused_before_writing() {
    let (disk, fixture) = Fixture::simulated(options(8), 64);
    fixture.set(page(3), 0, 7).unwrap();
    checkpoint(&fixture).unwrap();
    drop(fixture);
    let file = disk.open(WRITTEN_FILE, OpenMode::ReadWrite).unwrap();
    disk.write_at(file, 600, &[1], Durability::Durable).unwrap();
    let media: Arc<dyn Media> = disk.clone();
    let message = cedrat_pages::Home::look(&media, &options(8)).unwrap_err().to_string();
    assert!(message.starts_with("written, byte 512: the checksum does not match; restore the file"), "{message}");
}

/// E22.1, E22.2: at every call, with many losses.
#[test]
fn crash_at_any_call_knows_written_pages() {
    let (journal, begin) = run();
    let (mut states, mut noticed) = (HashSet::new(), 0);
    for at in begin..=journal.len() {
        let random = (0..6).map(|seed| Loss::Random(seed * 1000 + at as u64));
        for loss in [Loss::Everything, Loss::Nothing].into_iter().chain(random) {
            let image = journal.crash(at, loss).image();
            if !states.insert(image.hash()) {
                continue;
            }
            let context = format!("crash at {at} with {loss:?}");
            let redo_point = redo_point(&journal, at);
            assert_nothing_is_lost(&recovered(image.clone(), redo_point), &context);
            noticed += assert_losses_are_noticed(&image, redo_point, &context);
        }
    }
    println!("written pages: {} crash states, {noticed} lost pages noticed", states.len());
    assert!(states.len() > 80 && noticed > 50, "{} {noticed}", states.len());
}

/// E22.2, R6: a killed process leaves notes in the cache; the next one punches pages, and the power fails.
#[test]
fn power_loss_after_kill_knows_written_pages() {
    let (journal, begin) = run();
    let mut cursor = journal.cursor();
    let mut noticed = 0;
    for at in begin..=journal.len() {
        cursor.advance_to(at);
        for kill in [Kill::Process(at as u64), Kill::FailedSync(at as u64)] {
            let disk = Arc::new(cursor.kill(kill));
            let media: Arc<dyn Media> = disk.clone();
            let fixture = Fixture::recovered(&media, options(8), redo_point(&journal, at));
            let opened = disk.journal_len();
            work(&fixture, &disk, 5).unwrap();
            drop(fixture);
            let next = disk.journal();
            for cut in (opened..=next.len()).step_by(5) {
                let image = next.crash(cut, Loss::Everything).image();
                let redo_point = redo_point(&next, cut).max(redo_point(&journal, at));
                let context = format!("{kill:?} at {at}, power loss at {cut}");
                assert_nothing_is_lost(&recovered(image.clone(), redo_point), &context);
                if (at + cut) % 7 == 0 {
                    noticed += assert_losses_are_noticed(&image, redo_point, &context);
                }
            }
        }
    }
    assert!(noticed > 20, "{noticed}");
}

/// R6: a note that was read from the cache is made durable before the next process relies on it.
#[test]
fn read_note_is_durable_before_punch() {
    let (disk, fixture) = Fixture::simulated(options(8), 64);
    for number in [40, 9] {
        fixture.format(page(number));
        checkpoint(&fixture).unwrap(); // the last one overwrites the image of page 40
    }
    let begin = disk.journal_len();
    fixture.pool.punch(&[(page(40), 1)]).unwrap();
    drop(fixture);
    let journal = disk.journal();
    let mut cursor = journal.cursor();
    for at in begin..=journal.len() {
        cursor.advance_to(at);
        for seed in 0..8 {
            let disk = Arc::new(cursor.kill(Kill::Process(seed)));
            let media: Arc<dyn Media> = disk.clone();
            let fixture = Fixture::recovered(&media, options(8), Lsn::MAX);
            let opened = disk.journal_len();
            fixture.pool.punch(&[(page(40), 1)]).unwrap();
            drop(fixture);
            let next = disk.journal();
            for cut in opened..=next.len() {
                let image = next.crash(cut, Loss::Random(seed + cut as u64)).image();
                assert_nothing_is_lost(&recovered(image, Lsn::MAX), &format!("kill at {at}, power loss at {cut}"));
            }
        }
    }
}

/// W6: after a failed note nothing is punched, and no redo point moves.
#[test]
fn failed_note_stops_the_store() {
    let faults = [
        Fault::error(Call::Write, std::io::ErrorKind::Other).of(WRITTEN_FILE),
        Fault::error(Call::Sync, std::io::ErrorKind::Other).of(WRITTEN_FILE),
        Fault::forgetful_sync().of(WRITTEN_FILE),
    ];
    for fault in faults {
        let (disk, fixture) = Fixture::simulated(options(8), 64);
        fixture.set(page(3), 0, 7).unwrap();
        checkpoint(&fixture).unwrap();
        disk.inject(fault);
        assert!(fixture.pool.punch(&[(page(3), 1)]).is_err());
        assert!(fixture.log.is_stopped());
        assert!(fixture.pool.punch(&[(page(3), 1)]).is_err(), "not tried again");
        let home = disk.image().file(PAGE_FILE).unwrap();
        assert!(home[3 * PAGE_LEN..4 * PAGE_LEN].iter().any(|&byte| byte != 0), "E22.2");
    }
}

/// E22.4: calls on the file for each checkpoint.
#[test]
fn checkpoint_writes_only_changed_blocks() {
    let (disk, fixture) = Fixture::simulated(options(200), 300);
    let counted = Arc::new([const { AtomicU64::new(0) }; 2]);
    let counting = Arc::clone(&counted);
    disk.before_each_call(move |_, call, name| match call {
        Call::Write | Call::Sync if name == WRITTEN_FILE => {
            counting[usize::from(call == Call::Sync)].fetch_add(1, Ordering::Relaxed);
        }
        _ => {}
    });
    let counts = || {
        let of = |calls: &AtomicU64| calls.load(Ordering::Relaxed);
        (of(&counted[0]), of(&counted[1]))
    };
    let calls = |work: &dyn Fn()| {
        let before = counts();
        work();
        (counts().0 - before.0, counts().1 - before.1)
    };
    let change = |from: u64, to: u64| {
        for number in from..to {
            fixture.set(page(number), 0, 1).unwrap();
        }
        checkpoint(&fixture).unwrap();
    };
    assert_eq!(calls(&|| change(0, 100)), (1, 1), "100 pages that are new at home");
    assert_eq!(calls(&|| change(0, 100)), (0, 0), "the same again");
    assert_eq!(calls(&|| change(100, 101)), (1, 1), "one more");
    assert_eq!(calls(&|| fixture.pool.punch(&[(page(0), 20), (page(40), 20)]).unwrap()), (1, 1));
}

/// A program that catches the panic of a checkpoint takes the next one: the redo point passes pages that the file does not know.
#[test]
fn panicking_note_stops_the_store() {
    for call in [Call::Write, Call::Sync] {
        let (disk, fixture) = Fixture::simulated(options(8), 64);
        fixture.format(page(3));
        fixture.pool.write_back(WriteBack::Below(Lsn::MAX)).unwrap();
        disk.inject(Fault::panic(call).of(WRITTEN_FILE));
        catch_unwind(AssertUnwindSafe(|| fixture.pool.note_written())).expect_err("the disk panics");
        assert!(fixture.pool.note_written().is_err(), "E22.1: {call:?}");
    }
}
