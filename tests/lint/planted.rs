//! Each row of `tests/planted.txt` names an existing fault point, invariant and test, and each fault point has a row.
//! `./x planted` runs them.

use std::collections::{BTreeMap, BTreeSet};

use cedrat_tests::invariants::{PlantedFault, planted_faults, whole, whole_numbers};
use cedrat_tests::{root, sources};

use crate::invariants::numbers;

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
    let (rows, points) = (planted_faults(), fault_points());
    let of_rows: BTreeSet<&String> = rows.iter().map(|row| &row.fault).collect();
    assert_eq!(of_rows.len(), rows.len(), "a fault has one row in tests/planted.txt");
    assert_eq!(of_rows, points.keys().collect(), "faults of tests/planted.txt, and fault points of the code");
    assert!(points.values().all(|&count| count == 1), "a fault point stands once: {points:?}");
}

#[test]
fn each_planted_fault_names_invariant_and_test() {
    let (numbers, sources) = (numbers(), sources(&[".rs"]));
    for row in planted_faults() {
        let place = row.test_file();
        let PlantedFault { fault, invariant, test, .. } = row;
        assert!(numbers.contains(&invariant), "{fault}: there is no invariant {invariant}");
        let function = format!("fn {}(", test.rsplit("::").next().expect("a name"));
        let is_there = sources.iter().any(|file| file.name.starts_with(&place) && file.text.contains(&function));
        assert!(is_there, "{fault}: no test {test} in {place}");
    }
}

#[test]
fn invariants_without_a_planted_fault_become_fewer() {
    let planted: BTreeSet<String> = planted_faults().iter().map(|row| whole(&row.invariant).to_string()).collect();
    let without: BTreeSet<String> = whole_numbers().difference(&planted).cloned().collect();
    let path = root().join("tests/lint/unplanted.txt");
    if std::env::var_os("UPDATE").is_some() {
        let mut list = String::from("# Invariants without a row in tests/planted.txt: only shrinks.\n");
        without.iter().for_each(|number| list += &format!("{number}\n"));
        std::fs::write(&path, list).expect("the list");
    }
    let list = std::fs::read_to_string(&path).expect("the list");
    let listed: BTreeSet<String> = list.lines().filter(|line| !line.starts_with('#')).map(String::from).collect();
    assert_eq!(
        without, listed,
        "an invariant without a row in tests/planted.txt, or with one by now: tests/lint/unplanted.txt"
    );
}
