//! A real process is traced to see that every acknowledgement comes after a completed sync that covers its
//! record (W4): whatever the code says of itself, this is what the operating system was asked.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

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

/// The line of the trace from which on byte `at` of `path` is durable, of those before line `before`.
fn durable_from(calls: &[Call], path: &str, at: u64, before: usize) -> Option<usize> {
    let written = calls
        .iter()
        .filter(|call| call.path().is_some_and(|other| other.ends_with(path)))
        .filter(|call| call.written().is_some_and(|(start, end)| start <= at && at < end));
    written
        .filter_map(|write| {
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
        })
        .filter(|ended| *ended < before)
        .min()
}

#[test]
fn a_trace_is_read_with_its_interrupted_calls() {
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
    // A write that is still under way, or not synced yet, makes nothing durable.
    assert_eq!(durable_from(&calls, "log/0", 8192, 1), None);
    assert_eq!(durable_from(&calls, "log/0", 8192, 4), Some(2));
    assert_eq!(durable_from(&calls, "log/0", 100, 4), None);
    assert_eq!(durable_from(&calls, "log/0", 100, 6), Some(5));
    assert_eq!(durable_from(&calls, "log/1", 100, 6), None);
}

/// Runs `cedrat` with `arguments`; it must succeed.
fn cedrat(arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_cedrat")).args(arguments).output().expect("cedrat runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    output.stdout
}

/// Where the records of each transfer's commit lie, by the transfer's number: file, first and last byte.
fn commits(store: &Path) -> HashMap<u64, (String, u64, u64)> {
    let printed = cedrat(&["log", store.to_str().expect("UTF-8"), "--json"]);
    let mut transfer_of = HashMap::new();
    let mut commits = HashMap::new();
    for line in String::from_utf8(printed).expect("UTF-8").lines() {
        let record: Value = serde_json::from_str(line).expect("JSON");
        let transaction = record["transaction"].as_u64();
        if record["name"] == "bank.transfer" {
            let body = record["body"].as_str().expect("a user's record has a body");
            let id = u64::from_str_radix(body, 16).expect("the number of a transfer");
            transfer_of.insert(transaction, id);
        }
        if record["kind"] == "commit"
            && let Some(id) = transfer_of.get(&transaction)
        {
            let place = |name: &str| record[name].as_u64().expect("a number");
            let file = record["file"].as_str().expect("a file").to_string();
            let (start, length) = (place("file_offset"), place("length"));
            commits.insert(*id, (file, start, start + length - 1));
        }
    }
    commits
}

fn acknowledgements_follow_their_syncs(commit: &str, partitions: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let (store, trace) = (folder.path().join("bank"), folder.path().join("trace"));
    let run = Command::new("strace")
        .args(["-f", "-y", "-s", "32", "-o"])
        .arg(&trace)
        .args(["-e", "trace=write,pwrite64,pwritev2,fsync,fdatasync"])
        .arg(env!("CARGO_BIN_EXE_cedrat"))
        .args(["bank", "run"])
        .arg(&store)
        .args(["--accounts", "100", "--threads", "4", "--transfers", "200"])
        .args(["--commit", commit, "--partitions", partitions])
        .output()
        .expect("strace is installed (./x test does it)");
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{errors}");

    let trace = std::fs::read_to_string(&trace).expect("a trace");
    let calls = calls(&trace);
    let commits = commits(&store);
    let mut acknowledged = 0;
    for call in &calls {
        let Some(id) = call.acknowledged() else {
            continue;
        };
        acknowledged += 1;
        let (file, first, last) = commits.get(&id).expect("the log holds what it promised");
        for byte in [first, last] {
            assert!(
                durable_from(&calls, file, *byte, call.began).is_some(),
                "ack {id} was printed before byte {byte} of {file} was durable"
            );
        }
    }
    assert!(acknowledged >= 200, "{acknowledged} acknowledgements");
}

#[test]
fn each_acknowledgement_follows_the_sync_of_its_record() {
    acknowledgements_follow_their_syncs("sync", "1");
}

#[test]
fn each_acknowledgement_follows_the_sync_of_its_record_with_tokens_and_partitions() {
    acknowledgements_follow_their_syncs("async", "2");
}
