//! The black-box judge of the status oracle, and of transactions over Java objects: it verifies histories that clients and
//! threads have recorded by Elle's method, which does not know timestamps, logs or locks.
//!
//! `judge FOLDER…`: each folder contains folders that are named by the expectation of the histories in them: a consistency
//! model, such as `strict-serializable`, or `not-` and a model that a history must not satisfy. A planted fault that is found
//! shows that the judge can find one.
//!
//! A history that `histories.txt` names must be in one of the folders: a test that writes none is noticed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use adya::history::Mop;
use adya::{History, Opts, Valid, Workload, check};

const NOT: &str = "not-";

/// The histories that all tests together write. A line is a module, an expectation and a name.
const HISTORIES: &str = include_str!("histories.txt");

/// Expectation of a history.
struct Expectation<'n> {
    model: &'n str,
    holds: bool,
}

impl<'n> Expectation<'n> {
    fn named(folder: &'n str) -> Self {
        match folder.strip_prefix(NOT) {
            Some(model) => Expectation { model, holds: false },
            None => Expectation { model: folder, holds: true },
        }
    }

    /// Returns a description of the result, or the reason why it is not as expected.
    fn judge(&self, history: &str) -> Result<String, String> {
        if !adya::model::all_models().contains(self.model) {
            return Err(format!("unknown model {}", self.model));
        }
        let history = History::from_json(history).map_err(|wrong| wrong.to_string())?;
        // Each transaction reads an account before it changes it, so the order of its values is known.
        let options = Opts { models: vec![self.model.into()], wfr_keys: true, ..Opts::default() };
        let report = check(&history, workload(&history), &options);
        let found = format!("{} lines, {:?}", history.ops.len(), report.anomaly_types);
        match report.valid {
            Valid::Unknown => Err(format!("nothing can be said: {found}")),
            Valid::True if self.holds => Ok(found),
            Valid::False if !self.holds => Ok(found),
            Valid::True => Err(format!("it satisfies {}: {found}", self.model)),
            Valid::False => {
                let explanations = report.anomalies.values().flatten().take(3).map(|each| &*each.explanation);
                let explanations: Vec<_> = explanations.collect();
                Err(format!("it is not {}: {found}\n{}", self.model, explanations.join("\n")))
            }
        }
    }
}

/// Returns the workload: rows contain lists that grow, or values that are overwritten.
fn workload(history: &History) -> Workload {
    let mut operations = history.ops.iter().flat_map(|op| &op.value);
    if operations.any(|operation| matches!(operation, Mop::Write { .. })) {
        Workload::RwRegister
    } else {
        Workload::ListAppend
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let read = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths = Vec::new();
    for entry in read {
        paths.push(entry.map_err(|error| format!("{}: {error}", folder.display()))?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Judges all histories under a folder; returns how many were as expected, and how many were not.
fn judge_all(folder: &Path) -> Result<(usize, usize), String> {
    let (mut right, mut wrong) = (0, 0);
    for expected in entries(folder)? {
        let name = expected.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let expectation = Expectation::named(&name);
        for path in entries(&expected)? {
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            match expectation.judge(&text) {
                Ok(found) => {
                    right += 1;
                    println!("{name:32} {:24} {found}", path.file_stem().unwrap_or_default().to_string_lossy());
                }
                Err(otherwise) => {
                    wrong += 1;
                    eprintln!("{}: {otherwise}", path.display());
                }
            }
        }
    }
    Ok((right, wrong))
}

/// Returns the files of `list` that are not below one of the folders, or do not exist.
fn missing(list: &str, folders: &BTreeSet<PathBuf>, exists: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let files = list.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [module, expectation, name] = fields[..] else {
            panic!("histories.txt: a line is a module, an expectation and a name: {line}");
        };
        (PathBuf::from(module).join("target/histories"), format!("{expectation}/{name}.jsonl"))
    });
    let absent = files.filter(|(folder, file)| !folders.contains(folder) || !exists(&folder.join(file)));
    absent.map(|(folder, file)| folder.join(file)).collect()
}

fn main() -> ExitCode {
    let (mut right, mut wrong) = (0, 0);
    let folders: BTreeSet<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    for absent in missing(HISTORIES, &folders, Path::exists) {
        wrong += 1;
        eprintln!("{}: no such history: the test that writes it did not run", absent.display());
    }
    for folder in &folders {
        match judge_all(folder) {
            Ok(judged) => {
                right += judged.0;
                wrong += judged.1;
            }
            Err(error) => {
                eprintln!("judge: {error}");
                return ExitCode::from(2);
            }
        }
    }
    println!("{right} histories are what they should be, {wrong} are not");
    if right == 0 || wrong > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::{Expectation, HISTORIES, missing};

    #[test]
    fn missing_history_is_noticed() {
        let modules = HISTORIES.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split(' ').next());
        let folders: BTreeSet<_> = modules.map(|module| Path::new(module).join("target/histories")).collect();
        assert!(missing(HISTORIES, &folders, |_| true).is_empty());
        let of = |module: &str| PathBuf::from(module).join("target/histories/m/h.jsonl");
        assert_eq!(missing("a m h\nb m h", &[PathBuf::from("a/target/histories")].into(), |_| true), [of("b")]);
        assert_eq!(missing("a m h", &[PathBuf::from("a/target/histories")].into(), |_| false), [of("a")]);
    }

    const SKEW: &str = r#"
        {"type":"invoke","process":0,"value":[]}
        {"type":"invoke","process":1,"value":[]}
        {"type":"ok","process":0,"value":[["r","x",[]],["r","y",[]],["append","x",1]]}
        {"type":"ok","process":1,"value":[["r","x",[]],["r","y",[]],["append","y",2]]}
        {"type":"invoke","process":0,"value":[]}
        {"type":"ok","process":0,"value":[["r","x",[1]],["r","y",[2]]]}
    "#;

    #[test]
    fn write_skew_passes_snapshot_isolation_only() {
        for (expectation, is_right) in [
            ("strong-snapshot-isolation", true),
            ("not-strong-snapshot-isolation", false),
            ("strict-serializable", false),
            ("not-strict-serializable", true),
            ("no-model-of-this-name", false),
            ("not-anything-known", false),
        ] {
            assert_eq!(Expectation::named(expectation).judge(SKEW).is_ok(), is_right, "{expectation}");
        }
    }

    const LOST_UPDATE: &str = r#"
        {"type":"invoke","process":0,"value":[]}
        {"type":"ok","process":0,"value":[["w","x",1]]}
        {"type":"invoke","process":0,"value":[]}
        {"type":"invoke","process":1,"value":[]}
        {"type":"ok","process":0,"value":[["r","x",1],["w","x",2]]}
        {"type":"ok","process":1,"value":[["r","x",1],["w","x",3]]}
    "#;

    /// Half of a transaction that changes two rows.
    const HALF: &str = r#"
        {"type":"invoke","process":0,"value":[]}
        {"type":"ok","process":0,"value":[["w","x",1],["w","y",1]]}
        {"type":"invoke","process":0,"value":[]}
        {"type":"ok","process":0,"value":[["r","x",1],["w","x",2],["r","y",1],["w","y",2]]}
        {"type":"invoke","process":1,"value":[]}
        {"type":"ok","process":1,"value":[["r","x",2],["r","y",1]]}
    "#;

    #[test]
    fn registers_are_judged_too() {
        let right = LOST_UPDATE.replace(r#"["r","x",1],["w","x",3]"#, r#"["r","x",2],["w","x",3]"#);
        for (history, is_right) in [(right.as_str(), true), (LOST_UPDATE, false), (HALF, false)] {
            assert_eq!(Expectation::named("strong-snapshot-isolation").judge(history).is_ok(), is_right, "{history}");
        }
    }

    #[test]
    fn unjudged_history_is_not_right() {
        for history in ["", "{", r#"{"type":"ok","process":0,"value":[["r","x",[1]]]}"#] {
            for expectation in ["strict-serializable", "not-strict-serializable"] {
                assert!(Expectation::named(expectation).judge(history).is_err(), "{history} is {expectation}");
            }
        }
    }
}
