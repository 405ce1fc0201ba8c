//! The lag of a replica on the same machine: the time from a durable commit to its acknowledgement by the replica.
//!
//! `cargo run --release -p cedrat-replication --example lag -- DIRECTORY [THREADS] [SECONDS]` commits at the full rate first, then at
//! 80 % of it, which is the load of the figures.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use cedrat::prelude::*;
use cedrat::txn::{Follower, Quorum, ReplicaOptions};
use cedrat::wal::Lsn;
use cedrat_replication::{ReplicaListener, connect_local};

type Table = HashTable<u64, Vec<u8>>;

/// Commits whose acknowledgement is awaited, in the order in which they became durable.
#[derive(Default)]
struct Awaited {
    commits: Mutex<VecDeque<(Lsn, Instant)>>,
    more: Condvar,
}

/// Commits from several threads, at most one each `period` of each thread. Returns the number of commits in a second, and the lags.
fn run(store: &Store, table: &Table, threads: u64, time: Duration, period: Option<Duration>) -> (f64, Vec<Duration>) {
    let (awaited, is_over, commits) = (Awaited::default(), AtomicBool::new(false), AtomicU64::new(0));
    let mut lags = Vec::new();
    let began = Instant::now();
    thread::scope(|scope| {
        let collector = scope.spawn(|| collect(store, &awaited, &is_over));
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                let (awaited, commits) = (&awaited, &commits);
                scope.spawn(move || {
                    let mut number = 0_u32;
                    while began.elapsed() < time {
                        if let Some(period) = period {
                            // Spread over the period, and not all at once.
                            let due = period * number + period.mul_f64(worker as f64 / threads as f64);
                            thread::park_timeout(due.saturating_sub(began.elapsed()));
                        }
                        let key = worker << 32 | u64::from(number % 5_000);
                        let lsn = commit(store, table, key).expect("the store runs");
                        awaited.commits.lock().expect("no panic").push_back((lsn, Instant::now()));
                        awaited.more.notify_one();
                        commits.fetch_add(1, Ordering::Relaxed);
                        number += 1;
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
        is_over.store(true, Ordering::SeqCst);
        awaited.more.notify_one();
        lags = collector.join().expect("no panic");
    });
    (commits.load(Ordering::Relaxed) as f64 / time.as_secs_f64(), lags)
}

fn commit(store: &Store, table: &Table, key: u64) -> Result<Lsn> {
    let mut txn = store.begin();
    table.insert(&mut txn, &key, &vec![7; 100])?;
    Ok(txn.commit(Commit::Sync)?.lsn())
}

/// Measures the time from each commit to its acknowledgement.
fn collect(store: &Store, awaited: &Awaited, is_over: &AtomicBool) -> Vec<Duration> {
    let quorum = Quorum { replicas: 1, wait_max: Duration::from_secs(60) };
    let mut lags = Vec::new();
    loop {
        let mut commits = awaited.commits.lock().expect("no panic");
        while commits.is_empty() {
            if is_over.load(Ordering::SeqCst) {
                return lags;
            }
            commits = awaited.more.wait_timeout(commits, Duration::from_millis(100)).expect("no panic").0;
        }
        let (lsn, at) = commits.pop_front().expect("one at least");
        drop(commits);
        store.wait_replicated(lsn, quorum).expect("the replica follows");
        lags.push(at.elapsed());
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().ok_or("name a directory that is empty or missing")?);
    let threads: u64 = arguments.next().map_or(Ok(8), |threads| threads.parse())?;
    let time = Duration::from_secs(arguments.next().map_or(Ok(10), |seconds| seconds.parse())?);
    let of = |name: &str| directory.join(name);
    let store = cedrat::open(of("store"))?;
    let table = store.transact(|txn| Table::create(txn, "table"))?;
    let ended = Arc::new(|_: &str, why: &Error| eprintln!("{why}"));
    let server = store.replica_server(ReplicaOptions::default());
    let listener = ReplicaListener::bind_local(&of("store"), server, ended)?;
    let follows = follow(&of("store"), &of("replica"))?;
    let quorum = Quorum { replicas: 1, wait_max: Duration::from_secs(60) };
    store.wait_replicated(store.log().durable_lsn(), quorum)?;
    let (full, mut lags) = run(&store, &table, threads, time, None);
    print("full load", full, &mut lags);
    let period = Duration::from_secs_f64(threads as f64 / (0.8 * full));
    let (rate, mut lags) = run(&store, &table, threads, time, Some(period));
    print("80 % load", rate, &mut lags);
    drop(listener);
    // It ends with the connection.
    let _ended = follows.join();
    store.close()?;
    Ok(())
}

fn follow(store: &Path, replica: &Path) -> Result<thread::JoinHandle<Result<()>>, Box<dyn std::error::Error>> {
    let mut follower = Follower::open(cedrat::replica_in(replica), "replica")?;
    let stream = connect_local(store)?;
    Ok(thread::spawn(move || follower.follow(stream, &mut |_| ControlFlow::Continue(()))))
}

fn print(load: &str, rate: f64, lags: &mut [Duration]) {
    lags.sort();
    let at = |fraction: f64| lags[((lags.len() - 1) as f64 * fraction) as usize].as_secs_f64() * 1e3;
    println!(
        "{load}: {rate:.0} commits/s, lag p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms",
        at(0.5),
        at(0.99),
        at(0.999)
    );
}
