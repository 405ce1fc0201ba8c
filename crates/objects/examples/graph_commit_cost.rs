//! Measures the cost of one Debit-Credit transfer, uncontended and without waiting for the disk: three objects are patched,
//! one of which refers to a new one.
//!
//! `cargo run --release -p cedrat-objects --example graph_commit_cost [commits] [program-locks]`; `program-locks` measures
//! a program that has a lock table of its own, as Java objects have.

use cedrat_media::{Media, RealDisk};
use cedrat_objects::graph::{Changes, Graph, Identity, Mode, Options, Reference};
use cedrat_sync::Arc;
use cedrat_txn::{Registry, Result, Store};

const BRANCHES: u64 = 64;
const TELLERS: u64 = 10 * BRANCHES;
const ACCOUNTS: u64 = 1000 * BRANCHES;

/// Processor time of this thread, in nanoseconds: other load does not count.
fn on_cpu() -> u64 {
    let words = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    words.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default()
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }
}

/// Adds the rows of a table, each with a balance, and so many references.
fn rows(graph: &Graph, count: u64, references: usize) -> Result<Vec<Identity>> {
    let class = graph.define_class(b"a row")?;
    let mut all = Vec::new();
    while (all.len() as u64) < count {
        let mut changes = Changes::new();
        for _ in 0..1000.min(count - all.len() as u64) {
            changes.add(class, &[0; 8], &vec![Reference::NULL; references]);
        }
        all.extend(graph.commit(&changes, Mode::Async)?.identities);
    }
    Ok(all)
}

struct Bank<'g> {
    graph: &'g Graph,
    accounts: Vec<Identity>,
    tellers: Vec<Identity>,
    branches: Vec<Identity>,
    /// Class of the lines of the history.
    line: u32,
    /// Newest line of each branch.
    newest: Vec<Reference>,
    random: Random,
}

impl Bank<'_> {
    fn transfer(&mut self, balance: u64) -> Result<()> {
        let teller = self.random.below(TELLERS);
        let branch = (teller % BRANCHES) as usize;
        let account = self.random.below(ACCOUNTS / BRANCHES) * BRANCHES + branch as u64;
        let mut changes = Changes::new();
        let number = changes.add(self.line, &[1; 24], &[self.newest[branch]]);
        for row in [self.accounts[account as usize], self.tellers[teller as usize]] {
            changes.patch(row, 8, &balance.to_le_bytes());
        }
        let mut of_branch = [0; 16];
        of_branch[..8].copy_from_slice(&balance.to_le_bytes());
        of_branch[8..].copy_from_slice(&number.word().to_le_bytes());
        changes.patch(self.branches[branch], 8, &of_branch);
        let changed = self.graph.commit(&changes, Mode::Async)?;
        self.newest[branch] = changed.identities[0].into();
        Ok(())
    }
}

/// A function of its own, so that tools can count the instructions within it.
#[inline(never)]
fn transfers(bank: &mut Bank<'_>, balances: std::ops::Range<u64>) -> Result<()> {
    balances.into_iter().try_for_each(|balance| bank.transfer(balance))
}

fn run(graph: &Graph, commits: u64) -> Result<()> {
    let mut bank = Bank {
        graph,
        accounts: rows(graph, ACCOUNTS, 0)?,
        tellers: rows(graph, TELLERS, 0)?,
        branches: rows(graph, BRANCHES, 1)?,
        line: graph.define_class(b"a line of the history")?,
        newest: vec![Reference::NULL; BRANCHES as usize],
        random: Random(1),
    };
    (1..commits).try_for_each(|balance| bank.transfer(balance))?;
    let began = on_cpu();
    transfers(&mut bank, commits..2 * commits)?;
    println!("{:.0} ns a commit", (on_cpu() - began) as f64 / commits as f64);
    Ok(())
}

fn main() -> Result<()> {
    let commits = std::env::args().nth(1).and_then(|number| number.parse().ok()).unwrap_or(200_000);
    let place = std::env::temp_dir().join(format!("cedrat-commit-cost-{}", std::process::id()));
    std::fs::create_dir_all(&place).expect("a directory for the store");
    let media: Arc<dyn Media> = Arc::new(RealDisk::new(&place));
    let mut options = cedrat_txn::Options::default();
    options.pool.pages_max = 1 << 20; // tools that count instructions have little address space
    let registry = Registry::new().with(cedrat_structures::register).with(cedrat_objects::register);
    let store = Store::open(media, options, registry)?;
    let program_locks = std::env::args().any(|argument| argument == "program-locks");
    let graph = Graph::create(&store, "bank", Options { program_locks, ..Options::default() })?;
    run(&graph, commits)?;
    drop((graph, store));
    std::fs::remove_dir_all(&place).expect("the directory is ours");
    Ok(())
}
