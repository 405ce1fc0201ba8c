//! Measures the cost of the buffer pool on this machine: `cargo run --release -p cedrat-pages --example pool_figures
//! [DIR]`.
//!
//! Hits are measured in memory; write-back in DIR (default: the system's directory for temporary files), which should
//! be on the disk to be measured.

use std::hint::black_box;
use std::time::Instant;

use cedrat_media::{Media, RealDisk, SimDisk};
use cedrat_pages::{LatchRank, PageId, Pool, PoolOptions, StructureLatch, WriteBack};
use cedrat_sync::{Arc, Mutex, thread};
use cedrat_wal::{Kind, Log, LogOptions, Lsn, PartitionId, RecordHead, TxnId};

fn main() {
    let parent = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, Into::into);
    let directory = parent.join(format!("cedrat-pool-figures-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory for the figures");
    let media: Arc<dyn Media> = Arc::new(RealDisk::new(&directory));
    let log = Log::create(&media, &LogOptions::default(), &[]).expect("a log");
    let mut options = PoolOptions::default();
    options.capacity_pages = 270_000;
    let pool = Arc::new(Pool::open(media, log.clone(), options).expect("a pool"));
    let cleaner = pool.start_cleaner().expect("a cleaner");
    let pages = 262_144;
    pool.ensure_len(pages).expect("room for 1 GiB");

    hits();
    for (name, pages) in [("40 MB", 10_000), ("1 GiB", pages)] {
        for page in 0..pages {
            change(&pool, &log, PageId::new(page));
        }
        let one = random_reads(&pool, pages, 1);
        let two = random_reads(&pool, pages, 2);
        println!(
            "random optimistic reads over {name}: 1 thread {one:.1} M/s, 2 threads {two:.1} M/s ({:.2} times)",
            two / one
        );
    }
    let begin = Instant::now();
    let written = pool.write_back(WriteBack::Below(Lsn::MAX)).expect("home");
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "write-back of neighbours: {:.0} k pages/s ({:.0} MB/s)",
        written as f64 / seconds / 1e3,
        written as f64 * 4096.0 / seconds / 1e6
    );
    for page in (0..pages).step_by(13) {
        change(&pool, &log, PageId::new(page));
    }
    let begin = Instant::now();
    let written = pool.write_back(WriteBack::Below(Lsn::MAX)).expect("home");
    let seconds = begin.elapsed().as_secs_f64();
    println!("write-back of scattered pages: {:.1} k pages/s", written as f64 / seconds / 1e3);
    drop((cleaner, pool, log));
    std::fs::remove_dir_all(&directory).expect("the directory is ours");
}

fn change(pool: &Pool, log: &Log, page: PageId) {
    let mut exclusive = pool.exclusive_fresh(page).expect("a page");
    exclusive.will_change(log.current_lsn().next());
    let mut reservation = log.reservation_for_recovery();
    let head = RecordHead::new(Kind::UPDATE, TxnId(1), None);
    let lsn = log.append(PartitionId(0), head, &[b"figures"], &mut reservation).lsn;
    exclusive.change(lsn, |page| page.put_u64(2048, lsn.get()).expect("within the page"));
}

/// Returns nanoseconds per turn, the best of five rounds.
fn time(name: &str, mut turn: impl FnMut()) {
    const TURNS: u32 = 2_000_000;
    let round = |_| {
        let begin = Instant::now();
        (0..TURNS).for_each(|_| turn());
        begin.elapsed().as_secs_f64() * 1e9 / f64::from(TURNS)
    };
    let best = (0..5).map(round).fold(f64::MAX, f64::min);
    println!("{name}: {best:.1} ns");
}

fn hits() {
    // A separate store, because the LSNs below are not drawn from its log.
    let media: Arc<dyn Media> = Arc::new(SimDisk::new());
    let log = Log::create(&media, &LogOptions::default(), &[]).expect("a log");
    let pool = Pool::open(media, log.clone(), PoolOptions::default()).expect("a pool");
    pool.ensure_len(16).expect("room");
    let page = PageId::new(7);
    change(&pool, &log, page);
    time("shared hit, one number read", || {
        black_box(pool.read(black_box(page)).expect("a page").u64_at(2048)).expect("within");
    });
    time("optimistic hit, one number read", || {
        black_box(pool.optimistic(black_box(page), |page| page.u64_at(2048)).expect("a page"));
    });
    time("optimistic search of 64 tags", || {
        black_box(
            pool.optimistic(black_box(page), |page| page.find_tag(0..64, 1).map(|tags| tags.count())).expect("a page"),
        );
    });
    let mut lsn = pool.read(page).expect("a page").lsn();
    time("exclusive hit with a change of eight bytes", || {
        lsn = lsn.next();
        let mut exclusive = pool.exclusive(black_box(page)).expect("a page");
        exclusive.will_change(lsn);
        exclusive.change(lsn, |page| page.put_u64(2048, 1)).expect("within");
    });
    let latch = StructureLatch::new(LatchRank(1));
    time("structure latch, shared", || drop(black_box(latch.shared())));
    time("structure latch, stamp", || {
        let stamp = latch.stamp().expect("the shape does not change");
        assert!(black_box(latch.is_unchanged_since(stamp)));
    });
}

/// Returns the seconds for which this thread has had a processor: other load of the machine does not count.
fn processor_seconds() -> f64 {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    spent.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).expect("nanoseconds") / 1e9
}

/// Returns million reads a second of all threads, as if they had the machine for themselves.
fn random_reads(pool: &Pool, pages: u64, threads: u64) -> f64 {
    const READS: u64 = 10_000_000;
    let rates = Mutex::new(0.0);
    thread::scope(|scope| {
        for seed in 1..=threads {
            let rates = &rates;
            scope.spawn(move || {
                let begin = processor_seconds();
                let mut random = seed * 0x9E37_79B9_7F4A_7C15;
                let mut sum = 0u64;
                for _ in 0..READS {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let page = PageId::new(random % pages);
                    // The next page depends on this one, as in a search.
                    let seen = pool.optimistic(page, |page| page.u64_at(2048)).expect("a page");
                    sum = sum.wrapping_add(seen);
                    random = random.wrapping_add(seen & 1);
                }
                black_box(sum);
                *rates.lock() += READS as f64 / (processor_seconds() - begin) / 1e6;
            });
        }
    });
    rates.into_inner()
}
