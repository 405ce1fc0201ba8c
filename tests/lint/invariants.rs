//! Each numbered sentence of `docs/inside/invariants.md` is guarded: a test, the message of an assertion, or a planted fault
//! cites its number.

use std::collections::BTreeSet;

use cedrat_tests::invariants::{Invariant, all_citations, guards, invariants, planted_faults, whole, whole_numbers};
use cedrat_tests::root;

/// Returns the numbers of the invariants.
pub(crate) fn numbers() -> BTreeSet<String> {
    invariants().into_iter().map(|invariant| invariant.number).collect()
}

/// Returns the sentences that are excused, from a list that `UPDATE=1` rewrites.
fn excused(uncited: &BTreeSet<String>) -> BTreeSet<String> {
    let path = root().join("tests/lint/uncited.txt");
    if std::env::var_os("UPDATE").is_some() {
        let mut list = String::from("# Sentences that no test and no assertion cites yet: only shrinks.\n");
        for number in uncited {
            list += number;
            list += "\n";
        }
        std::fs::write(&path, list).expect("the list");
    }
    std::fs::read_to_string(&path)
        .expect("the list")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(String::from)
        .collect()
}

#[test]
fn each_number_stands_for_one_sentence() {
    let invariants = invariants();
    assert_eq!(numbers().len(), invariants.len(), "a number stands twice in docs/inside/invariants.md");
    for (at, Invariant { number, sentence }) in invariants.iter().enumerate() {
        let words: Vec<&str> = sentence.split(' ').collect();
        let ends = words
            .windows(2)
            .filter(|pair| pair[0].ends_with('.') && pair[1].starts_with(|c: char| c.is_uppercase() || c == '`'));
        assert!(sentence.ends_with('.') && ends.count() == 0, "{number} is one sentence; parts have letters");
        assert!(!sentence.contains("Test"), "{number} names tests: they cite it, and ./x invariants prints them");
        let is_behind_whole = number == whole(number)
            || invariants[..at]
                .iter()
                .rev()
                .find(|other| whole(&other.number) == other.number)
                .map(|other| &*other.number)
                == Some(whole(number));
        assert!(is_behind_whole, "{number} is a part of {}, and stands behind it", whole(number));
    }
}

#[test]
fn invariants_are_cited_by_assertion_or_test() {
    let (citations, faults) = (all_citations(), planted_faults());
    let uncited: BTreeSet<String> =
        whole_numbers().into_iter().filter(|number| guards(number, &citations, &faults).is_empty()).collect();
    let excused = excused(&uncited);
    let new: Vec<_> = uncited.difference(&excused).collect();
    let old: Vec<_> = excused.difference(&uncited).collect();
    assert!(new.is_empty(), "no test and no assertion cites {new:?}: guard the sentence, or remove it");
    assert!(old.is_empty(), "cited by now, or gone: take {old:?} out of tests/lint/uncited.txt");
}
