//! A real process is traced to see that every acknowledgement comes after a completed sync that covers its
//! record (W4): whatever the code says of itself, this is what the operating system was asked.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common;

/// One call of the traced process, with the lines of the trace where it began and ended.
#[derive(Debug, Default)]
struct Call {
    name: String,
    arguments: String,
    result: i64,
    began: usize,
    ended: usize,
}

/// Reads what `strace -f -o` wrote. Calls that never ended are left out.
fn calls(trace: &str) -> Vec<Call> {
    let mut open: HashMap<&str, Call> = HashMap::new();
    let mut calls = Vec::new();
    for (number, line) in trace.lines().enumerate() {
        let Some((thread, rest)) = line.split_once(' ') else {
            continue;
        };
        let rest = rest.trim_start();
        let mut call = if let Some(resumed) = rest.strip_prefix("<... ") {
            let Some(mut call) = open.remove(thread) else {
                continue;
            };
            call.arguments += resumed.split_once(" resumed>").map_or("", |(_, rest)| rest);
            call
        } else if let Some((name, arguments)) = rest.split_once('(') {
            Call { name: name.to_string(), arguments: arguments.to_string(), began: number, ..Call::default() }
        } else {
            continue; // a signal, or the end of a thread
        };
        if let Some(begun) = call.arguments.strip_suffix(" <unfinished ...>") {
            call.arguments = begun.to_string();
            open.insert(thread, call);
        } else if let Some((arguments, result)) = call.arguments.rsplit_once(" = ") {
            call.result = result.split(['<', ' ']).next().and_then(|number| number.parse().ok()).unwrap_or(-1);
            call.arguments = arguments.trim_end().trim_end_matches(')').to_string();
            call.ended = number;
            calls.push(call);
        }
    }
    calls
}

impl Call {
    /// The path behind the call's first argument, a descriptor as `strace -y` prints it.
    fn path(&self) -> Option<&str> {
        let behind = self.arguments.split_once('<')?.1;
        Some(behind.split_once('>')?.0)
    }

    /// The bytes of a file that a positioned write wrote.
    fn written(&self) -> Option<(u64, u64)> {
        let mut from_end = self.arguments.rsplit(", ");
        let offset = match self.name.as_str() {
            "pwrite64" => from_end.next()?,
            "pwritev2" => from_end.nth(1)?,
            _ => return None,
        };
        let start = offset.parse().ok()?;
        Some((start, start + u64::try_from(self.result).ok()?))
    }

    /// The number that the call acknowledges, if it is the printing of a line `ack ID`.
    fn acknowledged(&self) -> Option<u64> {
        let printed = self.arguments.split_once("\"ack ")?.1;
        (self.name == "write").then_some(())?;
        printed.split_once("\\n")?.0.parse().ok()
    }
}

/// The line of the trace from which on byte `at` of `path` is durable.
fn durable_from(calls: &[Call], path: &str, at: u64) -> Option<usize> {
    let written = calls.iter().filter(|call| call.path() == Some(path));
    let written = written.filter(|call| call.written().is_some_and(|(start, end)| start <= at && at < end));
    let durable = written.filter_map(|write| {
        if write.arguments.ends_with("RWF_DSYNC") {
            return Some(write.ended);
        }
        let sync = calls.iter().find(|call| {
            (call.name == "fdatasync" || call.name == "fsync")
                && call.result == 0
                && call.path() == write.path()
                && call.began > write.ended
        });
        sync.map(|call| call.ended)
    });
    durable.min()
}

#[test]
fn trace_includes_interrupted_calls() {
    let trace = concat!(
        "7 pwritev2(5</s/log/0>, [{iov_base=\"a, b\"..., iov_len=4096}], 1, 8192, RWF_DSYNC <unfinished ...>\n",
        "8 write(1<pipe:[1]>, \"ack 3\\n\", 6) = 6\n",
        "7 <... pwritev2 resumed>) = 4096\n",
        "9 pwrite64(5</s/log/0>, \"\"..., 4096, 0) = 4096\n",
        "8 write(1<pipe:[1]>, \"ack 4\\n\", 6) = 6\n",
        "9 fdatasync(5</s/log/0>) = 0\n",
        "8 +++ exited with 0 +++\n",
        "9 write(1<pipe:[1]>, \"ack 5\\n\", 6 <unfinished ...>\n",
    );
    let calls = calls(trace);
    assert_eq!(calls.len(), 5);
    let acknowledged: Vec<_> = calls.iter().filter_map(Call::acknowledged).collect();
    assert_eq!(acknowledged, [3, 4]);
    assert_eq!(calls[1].written(), Some((8192, 12288)));
    // A write that is not synced makes nothing durable before its sync has ended.
    assert_eq!(durable_from(&calls, "/s/log/0", 8192), Some(2));
    assert_eq!(durable_from(&calls, "/s/log/0", 100), Some(5));
    assert_eq!(durable_from(&calls, "/s/log/0", 5000), None);
    assert_eq!(durable_from(&calls, "/s/log/1", 100), None);
}

/// A record of the log.
struct Record {
    lsn: u64,
    file: String,
    /// Its offset in that file.
    offset: u64,
}

/// All records of a killed bank's log, and the LSN of each transfer's commit record.
fn records(store: &Path) -> (Vec<Record>, HashMap<u64, u64>) {
    let log = common::cedrat(&["log", common::text(store), "--json"]);
    let (mut records, mut transfer_of, mut commits) = (Vec::new(), HashMap::new(), HashMap::new());
    for line in common::printed(&log).lines() {
        let record: Value = serde_json::from_str(line).expect("JSON");
        let number = |name: &str| record[name].as_u64().expect("a number");
        let file = record["file"].as_str().expect("a file").to_string();
        records.push(Record { lsn: number("lsn"), file, offset: number("file_offset") });
        if record["name"] == "bank.transfer" {
            let digits = record["arguments"].as_str().expect("bytes");
            let id = u64::from_str_radix(digits, 16).expect("the number of a transfer");
            transfer_of.insert(number("transaction"), id);
        }
        if record["kind"] == "commit"
            && let Some(id) = transfer_of.get(&number("transaction"))
        {
            commits.insert(*id, number("lsn"));
        }
    }
    (records, commits)
}

/// Runs the bank under `strace`, and kills it when it has acknowledged some transfers.
fn trace(store: &Path, trace: &Path, commit: &str, partitions: &str) -> String {
    let mut strace = Command::new("strace")
        .args(["-f", "-y", "-s", "32", "-o", common::text(trace)])
        .args(["-e", "trace=write,pwrite64,pwritev2,fsync,fdatasync"])
        .args([env!("CARGO_BIN_EXE_cedrat"), "bank", "run", common::text(store)])
        .args(["--accounts", "100", "--threads", "4", "--commit", commit, "--partitions", partitions])
        .stdout(Stdio::piped())
        .spawn()
        .expect("strace is installed (./x test does it)");
    // The pipe stays open until the bank is killed: without a reader the bank would end, and its close might release the records.
    let mut lines = BufReader::new(strace.stdout.take().expect("it is a pipe")).lines();
    for line in lines.by_ref().take(ACKNOWLEDGED) {
        line.expect("an acknowledgement");
    }
    // The bank is strace's one child. Killing strace instead would let it go on.
    let children = format!("/proc/{0}/task/{0}/children", strace.id());
    let bank = std::fs::read_to_string(children).expect("the process runs");
    let killed = Command::new("kill").args(["-KILL", bank.trim()]).status().expect("kill runs");
    assert!(killed.success());
    drop(lines);
    strace.wait().expect("it ended");
    std::fs::read_to_string(trace).expect("a trace")
}

/// Number of acknowledgements that are waited for.
const ACKNOWLEDGED: usize = 200;

fn acknowledgements_follow_their_syncs(commit: &str, partitions: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("bank");
    let trace = trace(&store, &folder.path().join("trace"), commit, partitions);
    let calls = calls(&trace);
    let (records, commits) = records(&store);
    // From which line of the trace on everything up to a record is durable.
    let mut stable = BTreeMap::new();
    let mut latest = 0;
    for record in &records {
        latest = latest.max(durable_from(&calls, &record.file, record.offset).unwrap_or(usize::MAX));
        stable.insert(record.lsn, latest);
    }
    let mut acknowledged = 0;
    for call in &calls {
        if let Some(id) = call.acknowledged() {
            let lsn = commits.get(&id).expect("the log holds what it promised");
            assert!(stable[lsn] < call.began, "ack {id} was printed before all up to its record {lsn} was durable");
            acknowledged += 1;
        }
    }
    assert!(acknowledged >= ACKNOWLEDGED, "{acknowledged} acknowledgements");
}

#[test]
fn acknowledgement_follows_sync_of_its_record() {
    acknowledgements_follow_their_syncs("sync", "1");
}

#[test]
fn acknowledgement_follows_sync_with_partitions() {
    acknowledgements_follow_their_syncs("async", "2");
}
