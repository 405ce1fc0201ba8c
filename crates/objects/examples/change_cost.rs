//! Measures the cost of one change of an object, uncontended, without its commit: found, logged, changed in the cache, and
//! one object in eleven written to its page to make room for another.
//!
//! `cargo run --release -p cedrat-objects --example change_cost [transactions [policy]]`

use std::ops::Range;

use cedrat_media::{Media, RealDisk};
use cedrat_objects::{ObjectDelta, ObjectId, Objects, Options, UndoPolicy, register_delta};
use cedrat_sync::Arc;
use cedrat_txn::{Commit, NoLocks, Refused, Registry, Result, SmallBytes, Store, TxnOptions};
use serde::{Deserialize, Serialize};

const OBJECTS: u64 = 5_000;
const CHANGES: u64 = 100;

/// Sets bytes of an object.
#[derive(Debug, Serialize, Deserialize)]
struct Fill {
    at: u16,
    bytes: SmallBytes,
}

impl ObjectDelta for Fill {
    const NAME: &'static str = "example.fill";

    fn apply(&self, object: &mut [u8]) -> Result<(), Refused> {
        let range = object.get_mut(usize::from(self.at)..).and_then(|rest| rest.get_mut(..self.bytes.len()));
        range.ok_or(Refused::new("the bytes do not lie in the object"))?.copy_from_slice(&self.bytes);
        Ok(())
    }

    fn changes(&self) -> Option<Range<usize>> {
        let at = usize::from(self.at);
        Some(at..at + self.bytes.len())
    }
}

/// Processor time of this thread, in nanoseconds: other load does not count.
fn on_cpu() -> u64 {
    let words = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    words.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default()
}

/// Picks an object: nine times of ten among a tenth of all objects.
fn pick(state: &mut u64) -> u64 {
    let mut below = |bound: u64| {
        *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        ((u128::from(*state) * u128::from(bound)) >> 64) as u64
    };
    if below(10) > 0 { below(OBJECTS / 10) * 10 } else { below(OBJECTS) }
}

fn run(store: &Store, objects: &Objects, ids: &[ObjectId], options: TxnOptions, transactions: u64) -> Result<()> {
    let mut random = 1;
    let mut change = |txns: u64| -> Result<()> {
        for turn in 0..txns {
            let mut txn = store.begin_with(options);
            for _ in 0..CHANGES {
                let number = pick(&mut random);
                let delta = Fill { at: (pick(&mut random) % 1000) as u16, bytes: [turn as u8; 4].as_slice().into() };
                objects.update(&mut txn, ids[number as usize], delta)?;
            }
            txn.commit(Commit::NoFlush)?;
        }
        Ok(())
    };
    change(transactions / 10)?;
    let before = objects.statistics();
    let began = on_cpu();
    change(transactions)?;
    let each = (on_cpu() - began) as f64 / (transactions * CHANGES) as f64;
    let now = objects.statistics();
    let misses = (now.misses - before.misses) as f64 / (transactions * CHANGES) as f64;
    println!("{each:.0} ns a change, {:.1} % of them of an object that was not in the cache", misses * 100.0);
    Ok(())
}

fn main() -> Result<()> {
    let transactions: u64 = std::env::args().nth(1).and_then(|number| number.parse().ok()).unwrap_or(10_000);
    let wanted = std::env::args().nth(2);
    let directory = std::env::temp_dir().join(format!("cedrat-change-cost-{}", std::process::id()));
    let with_atomicity = TxnOptions::default();
    for (name, undo, options) in [
        ("relaxed", UndoPolicy::Relaxed, with_atomicity.without_atomicity()),
        ("committed-only", UndoPolicy::CommittedOnly, with_atomicity),
        ("inverses", UndoPolicy::Inverses, with_atomicity),
    ] {
        if wanted.as_ref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let place = directory.join(name);
        std::fs::create_dir_all(&place).expect("a directory for the store");
        let media: Arc<dyn Media> = Arc::new(RealDisk::new(&place));
        let mut of_store = cedrat_txn::Options { locks: Arc::new(NoLocks), ..cedrat_txn::Options::default() };
        of_store.pool.pages_max = 1 << 20; // tools that count instructions have little address space
        let registry = Registry::new().with(cedrat_structures::register).with(cedrat_objects::register);
        let store = Store::open(media, of_store, registry.with(register_delta::<Fill>))?;
        let of_objects = Options { cache_bytes: OBJECTS / 5 * (1024 + 196), undo };
        let objects = Objects::create(&store, "objects", of_objects)?;
        let mut txn = store.begin_with(options);
        let ids = (0..OBJECTS).map(|_| objects.insert(&mut txn, &[0; 1024])).collect::<Result<Vec<_>>>()?;
        txn.commit(Commit::Sync)?;
        store.checkpoint()?;
        print!("{name}: ");
        run(&store, &objects, &ids, options, transactions)?;
    }
    std::fs::remove_dir_all(&directory).expect("the directory is ours");
    Ok(())
}
