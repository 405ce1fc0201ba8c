//! The cost of one update, uncontended: lock, latch, prepare, reserve, append, redo, stamp.
//!
//! `cargo run --release -p cedrat-txn --example update_cost [updates]`

use std::time::Instant;

use cedrat_media::{Media, RealDisk};
use cedrat_pages::{Damaged, LayoutKind, PageMut, PageRef, Slot};
use cedrat_sync::Arc;
use cedrat_txn::{Commit, FormatFresh, NoLocks, Operation, Options, RecordId, Refused, Registry, Result, Store, Undo};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct Put {
    bytes: [u8; 16],
}

impl Operation for Put {
    const NAME: &'static str = "example.put";

    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        let now = page.slice(usize::from(at.0) * 16..usize::from(at.0) * 16 + 16)?;
        Ok(Undo::op(Put { bytes: now.try_into().expect("sixteen bytes") }))
    }

    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        page.put(usize::from(at.0) * 16, &self.bytes)
    }
}

/// Time that this thread spent on a processor, in nanoseconds: other load does not count.
fn on_cpu() -> u64 {
    let words = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    words.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default()
}

fn main() -> Result<()> {
    let updates: u64 = std::env::args().nth(1).and_then(|number| number.parse().ok()).unwrap_or(2_000_000);
    let directory = std::env::temp_dir().join(format!("cedrat-update-cost-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory for the store");
    for locked in [true, false] {
        let place = directory.join(if locked { "locks" } else { "no-locks" });
        std::fs::create_dir_all(&place).expect("a directory for the store");
        let media: Arc<dyn Media> = Arc::new(RealDisk::new(&place));
        let mut options = Options::default();
        if !locked {
            options.locks = Arc::new(NoLocks);
        }
        let store = Store::open(Arc::clone(&media), options.clone(), Registry::new().operation::<Put>())?;
        let pages = store.transact(|txn| {
            (0..64)
                .map(|_| {
                    let page = txn.allocate()?;
                    txn.update(RecordId::page(page), &FormatFresh::new(LayoutKind::RAW))?;
                    Ok(page)
                })
                .collect::<Result<Vec<_>>>()
        })?;
        let began = on_cpu();
        let mut txn = store.begin();
        for number in 0..updates {
            let page = pages[number as usize / 16 % pages.len()];
            let at = RecordId::new(page, Slot((number % 200) as u16));
            txn.update(at, &Put { bytes: [number as u8; 16] })?;
        }
        let each = (on_cpu() - began) as f64 / updates as f64;
        println!("locks {locked}: {each:.0} ns an update");
        txn.commit(Commit::Sync)?;
        let began = on_cpu();
        for number in 0..updates / 10 {
            let mut txn = store.begin();
            let at = RecordId::new(pages[number as usize % 64], Slot((number % 200) as u16));
            txn.update(at, &Put { bytes: [number as u8; 16] })?;
            txn.commit(Commit::Async)?;
        }
        let each = (on_cpu() - began) as f64 / (updates / 10) as f64;
        println!("locks {locked}: {each:.0} ns a transaction of one update, asynchronous");
        drop(store);
        let began = Instant::now();
        let store = Store::open(Arc::clone(&media), options, Registry::new().operation::<Put>())?;
        println!("opened again in {:?}: {:?}", began.elapsed(), store.recovery());
    }
    std::fs::remove_dir_all(&directory).expect("the directory is ours");
    Ok(())
}
