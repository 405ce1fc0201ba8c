//! Figures `archive`, `backup` and `restore`: what an archive and a running backup take from durable commits, and the time of a backup
//! and a restore beside `cp` of the same files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cedrat::structures::HashTable;
use cedrat::txn::{BackupOptions, RestoreTarget};
use cedrat::{Options, Store};

use crate::Settings;
use crate::disk::{BLOCK_LEN, drop_cached};
use crate::job::{Scratch, rate};
use crate::report::{Goal, Point, Report, median, params};
use crate::systems::Result;

/// Keys of each thread, each with a value of 100 bytes: they fit the pool.
const KEYS: u64 = 5_000;

/// Threads that commit while a backup runs.
const THREADS_BESIDE_BACKUP: u32 = 8;

const COMMITS: &str = "commits_per_s";

type Table = HashTable<u64, String>;

/// A way to copy: its name, the directory that it reads, and what it does.
type Way<'a> = (&'a str, &'a Path, &'a dyn Fn() -> Result<()>);

/// Opens a new store with a table, and an archive beside it if one is wanted.
fn created(dir: &Path, is_archived: bool) -> Result<(Store, Table)> {
    let options = Options::default();
    let options = if is_archived { cedrat::archived_in(dir.join("archive"), options) } else { options };
    let store = cedrat::open_with(dir.join("store"), options, cedrat::registry())?;
    let table = store.transact(|txn| Table::create(txn, "table"))?;
    Ok((store, table))
}

/// Commits a change of one entry durably. Each thread has keys of its own.
fn commit(store: &Store, table: &Table, thread: u32, number: u64) -> Result<()> {
    let key = u64::from(thread) * KEYS + number % KEYS;
    let value = format!("{number:0100}");
    store.transact(|txn| table.insert(txn, &key, &value))?;
    Ok(())
}

/// Measures commits with an archive and without, in turns of both orders.
pub(crate) fn archive(settings: &Settings, scratch: &mut Scratch) -> Result<Report> {
    let turns = if settings.quick { 2 } else { 8 };
    let seconds = settings.seconds(4.0, 0.5);
    let mut report = Report::default();
    for threads in [8, 50].into_iter().filter(|&threads| settings.wants(&params! {"threads": threads})) {
        let mut rates = [Vec::new(), Vec::new()];
        for turn in 0..turns {
            settings.tell(&format!("archive: {threads} threads, turn {} of {turns}", turn + 1));
            for is_archived in [turn % 2 == 0, turn % 2 == 1] {
                let dir = scratch.fresh()?;
                let (store, table) = created(&dir, is_archived)?;
                let reached = rate(threads, seconds, |thread, go_on| {
                    let mut number = 0;
                    loop {
                        commit(&store, &table, thread, number)?;
                        number += 1;
                        if !go_on(1) {
                            return Ok(());
                        }
                    }
                })?;
                rates[usize::from(is_archived)].push(reached);
                drop((table, store));
                std::fs::remove_dir_all(dir)?;
            }
        }
        let ratio = ratios(&rates[1], &rates[0]);
        for (archive, rates) in rates.into_iter().enumerate() {
            let params = params! {"threads": threads, "archive": archive};
            report
                .points
                .extend(median(rates).map(|rate| Point::new("archive", "cedrat", params, COMMITS, rate, "1/s")));
        }
        report.goals.push(Goal::at_least(format!("commits with an archive / without, {threads} threads"), ratio, 0.95));
    }
    Ok(report)
}

/// Returns the median of the ratios of pairs, which ran one after the other: the speed of the disk varies over time.
fn ratios(above: &[f64], below: &[f64]) -> Option<f64> {
    median(above.iter().zip(below).map(|(above, below)| above / below).collect())
}

/// Measures commits while backups run one after the other, and without, in turns of both orders.
pub(crate) fn backup(settings: &Settings, scratch: &mut Scratch) -> Result<Report> {
    let turns = if settings.quick { 2 } else { 8 };
    let seconds = settings.seconds(5.0, 0.5);
    let dir = scratch.fresh()?;
    let (store, table) = created(&dir, false)?;
    fill(&store, bytes(settings) / 4)?;
    let (mut rates, mut slowest) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for turn in 0..turns {
        settings.tell(&format!("backup: turn {} of {turns}", turn + 1));
        for has_backup in [turn % 2 == 0, turn % 2 == 1] {
            let latencies = if has_backup {
                beside_backups(&store, scratch, || latencies(&store, &table, seconds))?
            } else {
                latencies(&store, &table, seconds)?
            };
            rates[usize::from(has_backup)].push(latencies.len() as f64 / seconds);
            slowest[usize::from(has_backup)].push(percentile_999(latencies));
        }
    }
    let goals = [
        (ratios(&rates[1], &rates[0]), "commits while a backup runs / without"),
        (ratios(&slowest[1], &slowest[0]), "99.9th percentile of commits while a backup runs / without"),
    ];
    let mut report = Report::default();
    for (running, (rates, slowest)) in rates.into_iter().zip(slowest).enumerate() {
        let params = params! {"threads": THREADS_BESIDE_BACKUP, "backup": running};
        let mut add = |metric, value: Option<f64>, unit| {
            report
                .points
                .extend(value.map(|value| Point::new("backup", "cedrat", params.clone(), metric, value, unit)));
        };
        add(COMMITS, median(rates), "1/s");
        add("commit_p999_us", median(slowest), "us");
    }
    report.goals = vec![Goal::at_least(goals[0].1, goals[0].0, 0.85), Goal::at_most(goals[1].1, goals[1].0, 2.0)];
    Ok(report)
}

/// Runs `measured` while backups run, at least one.
fn beside_backups<T>(store: &Store, scratch: &mut Scratch, measured: impl FnOnce() -> Result<T>) -> Result<T> {
    let (base, over) = (scratch.fresh()?, AtomicBool::new(false));
    thread::scope(|scope| {
        let backups = scope.spawn(|| -> Result<()> {
            for number in 0.. {
                let to = base.join(number.to_string());
                cedrat::backup(store, &to, BackupOptions::default())?;
                std::fs::remove_dir_all(to)?;
                if over.load(Ordering::Relaxed) {
                    break;
                }
            }
            Ok(())
        });
        let measured = measured();
        over.store(true, Ordering::Relaxed);
        backups.join().map_err(|_| "the thread of backups panicked")??;
        measured
    })
}

/// Returns the microseconds of each commit of some seconds.
fn latencies(store: &Store, table: &Table, seconds: f64) -> Result<Vec<f64>> {
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS_BESIDE_BACKUP)
            .map(|thread| {
                scope.spawn(move || -> Result<Vec<f64>> {
                    let mut latencies = Vec::new();
                    for number in 0.. {
                        let began = Instant::now();
                        if began >= end {
                            break;
                        }
                        commit(store, table, thread, number)?;
                        latencies.push(began.elapsed().as_secs_f64() * 1e6);
                    }
                    Ok(latencies)
                })
            })
            .collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().map_err(|_| "a committing thread panicked")??);
        }
        Ok(all)
    })
}

fn percentile_999(mut latencies: Vec<f64>) -> f64 {
    latencies.sort_by(f64::total_cmp);
    latencies.get(latencies.len() * 999 / 1000).copied().unwrap_or(f64::NAN)
}

/// Returns the size of a store to copy, in bytes.
fn bytes(settings: &Settings) -> u64 {
    settings.bytes.unwrap_or(if settings.quick { 32 << 20 } else { 1 << 30 })
}

/// Fills a table of its own with so many bytes.
fn fill(store: &Store, bytes: u64) -> Result<()> {
    const ENTRY_LEN: u64 = 1_000;
    let table = store.transact(|txn| Table::open_or_create(txn, "filled"))?;
    let entries = bytes / ENTRY_LEN;
    for first in (0..entries).step_by(1_000) {
        store.transact(|txn| {
            (first..entries.min(first + 1_000))
                .try_for_each(|key| table.insert(txn, &key, &format!("{key:0900}")).map(drop))
        })?;
    }
    Ok(store.checkpoint()?)
}

/// Measures backups and restores of a store, and `cp` of the same files, in turns of both orders.
pub(crate) fn restore(settings: &Settings, scratch: &mut Scratch) -> Result<Report> {
    let turns = if settings.quick { 1 } else { 5 };
    let (dir, copies) = (scratch.fresh()?, scratch.fresh()?);
    let place = |name: &str| copies.join(name);
    settings.tell("restore: filling a store");
    let (store, table) = created(&dir, true)?;
    fill(&store, bytes(settings))?;
    cedrat::backup(&store, dir.join("backup"), BackupOptions::default())?;
    // A twentieth as much log: each commit writes a block.
    (0..bytes(settings) / 20 / BLOCK_LEN as u64).try_for_each(|number| commit(&store, &table, 0, number))?;
    store.extend_archive()?;
    let (backup, archive) = (dir.join("backup"), dir.join("archive"));
    let of_store = || Ok(cedrat::backup(&store, place("copy"), BackupOptions::default()).map(drop)?);
    let plain = || Ok(cedrat::restore(&backup, None, place("copy"), RestoreTarget::Newest).map(drop)?);
    let to_point = || Ok(cedrat::restore(&backup, Some(&archive), place("copy"), RestoreTarget::Newest).map(drop)?);
    let cp_store = || cp(&dir.join("store"), &place("copy"));
    let cp_backup = || cp(&backup, &place("copy"));
    let ways: [Way<'_>; 5] = [
        ("backup", &dir, &of_store),
        ("cp_store", &dir, &cp_store),
        ("restore", &dir, &plain),
        ("cp_backup", &dir, &cp_backup),
        ("restore_to_point", &dir, &to_point),
    ];
    let mut times: [Vec<f64>; 5] = Default::default();
    for turn in 0..turns {
        settings.tell(&format!("restore: turn {} of {turns}", turn + 1));
        let mut order = [0, 1, 2, 3, 4];
        if turn % 2 == 1 {
            order.reverse();
        }
        for way in order {
            files(ways[way].1)?.iter().try_for_each(|file| drop_cached(file))?;
            let began = Instant::now();
            ways[way].2()?;
            times[way].push(began.elapsed().as_secs_f64());
            std::fs::remove_dir_all(place("copy"))?;
        }
    }
    let ratio = |above: usize, below: usize| ratios(&times[above], &times[below]);
    let mut report = Report {
        goals: vec![
            Goal::at_least("speed of a backup / cp of the store and sync", ratio(1, 0), 0.8),
            Goal::at_least("speed of a restore / cp of the backup and sync", ratio(3, 2), 0.8),
            Goal::at_most("time of a restore to a point with an archive / of a plain restore", ratio(4, 2), 1.3),
        ],
        ..Report::default()
    };
    for (times, (way, ..)) in times.into_iter().zip(ways) {
        let params = params! {"way": way, "bytes": bytes(settings)};
        report.points.extend(median(times).map(|time| Point::new("restore", "cedrat", params, "copy_s", time, "s")));
    }
    Ok(report)
}

/// Copies a directory with `cp`, and makes the copy durable.
fn cp(from: &Path, to: &Path) -> Result<()> {
    let copied = Command::new("cp").args(["-r", "--reflink=never"]).args([from, to]).status()?;
    let synced = Command::new("sync").args(files(to)?).status()?;
    if copied.success() && synced.success() { Ok(()) } else { Err(format!("cp or sync of {}", from.display()).into()) }
}

/// Returns all files of a directory and of those within it.
pub(crate) fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() { found.extend(files(&path)?) } else { found.push(path) }
    }
    Ok(found)
}
