//! The command as its users have it: a process.
#![cfg_attr(cedrat_shuttle, allow(dead_code, reason = "most tests are not there"))]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// The command, ready for arguments.
pub(crate) fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_cedrat"))
}

/// Runs `cedrat` with `arguments` to its end.
pub(crate) fn cedrat(arguments: &[&str]) -> Output {
    command().args(arguments).output().expect("cedrat runs")
}

/// Returns the output of a run, if it ended with exit code 0.
pub(crate) fn printed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", errors(output));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// Returns the output of a run on stderr.
pub(crate) fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The one JSON object that a run printed.
pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_str(&printed(output)).expect("one JSON object")
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// All files below a folder with their bytes.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(text(&path).to_string(), fs::read(&path).expect("a file"));
            }
        }
    }
    found
}
