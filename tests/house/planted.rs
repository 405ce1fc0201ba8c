//! Each row of `tests/planted.txt` names an existing fault point, invariant and test, and each fault point has a row.
//! `./x planted` runs them.

use std::collections::{BTreeMap, BTreeSet};

use cedrat_tests::{root, sources};

use crate::invariants::sentences;

struct Row {
    fault: String,
    invariant: String,
    package: String,
    target: String,
    test: String,
}

fn rows() -> Vec<Row> {
    let table = std::fs::read_to_string(root().join("tests/planted.txt")).expect("the table");
    let row = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [fault, invariant, package, target, test, sentence] = fields[..] else {
            panic!("a row has six fields, separated by tabs: {line}")
        };
        assert!(sentence.ends_with('.'), "a row ends with a sentence: {line}");
        let [fault, invariant, package, target, test] = [fault, invariant, package, target, test].map(String::from);
        Row { fault, invariant, package, target, test }
    };
    table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(row).collect()
}

/// Returns the number of occurrences of each fault point in the code.
fn fault_points() -> BTreeMap<String, usize> {
    let mut points = BTreeMap::new();
    let code = sources(&[".rs"]).into_iter().filter(|file| file.name.starts_with("crates/"));
    for file in code.filter(|file| file.name.contains("/src/") && file.name != "crates/sync/src/planted.rs") {
        for rest in file.text.split("planted!(\"").skip(1) {
            let fault = rest.split('"').next().expect("a name ends");
            *points.entry(fault.to_string()).or_default() += 1;
        }
    }
    points
}

#[test]
fn each_planted_fault_has_row_and_point() {
    let (rows, points) = (rows(), fault_points());
    let of_rows: BTreeSet<&String> = rows.iter().map(|row| &row.fault).collect();
    assert_eq!(of_rows.len(), rows.len(), "a fault has one row in tests/planted.txt");
    assert_eq!(of_rows, points.keys().collect(), "faults of tests/planted.txt, and fault points of the code");
    assert!(points.values().all(|&count| count == 1), "a fault point stands once: {points:?}");
}

#[test]
fn each_planted_fault_names_invariant_and_test() {
    let page = std::fs::read_to_string(root().join("docs/inside/invariants.md")).expect("the page");
    let (sentences, sources) = (sentences(&page), sources(&[".rs"]));
    for Row { fault, invariant, package, target, test } in rows() {
        assert!(sentences.contains(&invariant), "{fault}: there is no invariant {invariant}");
        let folder = package.strip_prefix("cedrat-").expect("a package of ours");
        let place = match target.as_str() {
            "lib" => format!("crates/{folder}/src/"),
            target => format!("crates/{folder}/tests/{target}.rs"),
        };
        let function = format!("fn {}(", test.rsplit("::").next().expect("a name"));
        let is_there = sources.iter().any(|file| file.name.starts_with(&place) && file.text.contains(&function));
        assert!(is_there, "{fault}: no test {test} in {place}");
    }
}

#[test]
fn invariants_without_a_planted_fault_become_fewer() {
    let page = std::fs::read_to_string(root().join("docs/inside/invariants.md")).expect("the page");
    let planted: BTreeSet<String> = rows().into_iter().map(|row| row.invariant).collect();
    let without: BTreeSet<String> = sentences(&page).difference(&planted).cloned().collect();
    let path = root().join("tests/house/unplanted.txt");
    if std::env::var_os("UPDATE").is_some() {
        let mut list = String::from("# Invariants without a row in tests/planted.txt: only shrinks.\n");
        without.iter().for_each(|number| list += &format!("{number}\n"));
        std::fs::write(&path, list).expect("the list");
    }
    let list = std::fs::read_to_string(&path).expect("the list");
    let listed: BTreeSet<String> = list.lines().filter(|line| !line.starts_with('#')).map(String::from).collect();
    assert_eq!(
        without, listed,
        "an invariant without a row in tests/planted.txt, or with one by now: tests/house/unplanted.txt"
    );
}
