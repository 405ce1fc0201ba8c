//! Each numbered sentence of `docs/inside/invariants.md` is guarded: an assertion or a test cites its number.

use std::collections::BTreeSet;

use cedrat_tests::{root, sources};

/// Returns the numbers of the sentences, as `E1.3` or `W4`, from their bold beginnings.
pub(crate) fn sentences(page: &str) -> BTreeSet<String> {
    page.lines()
        .filter_map(|line| line.strip_prefix("- **"))
        .filter_map(|rest| rest.split_once("**"))
        .map(|(number, _)| number.to_string())
        .collect()
}

/// Returns whether `text` contains `number`, but not as a part of a longer one: `E1.1` is not in `E1.12`.
fn cites(text: &str, number: &str) -> bool {
    text.match_indices(number).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let mut after = text[at + number.len()..].chars();
        let longer = match after.next() {
            Some('.') => after.next().is_some_and(|c| c.is_ascii_digit()),
            Some(c) => c.is_ascii_alphanumeric(),
            None => false,
        };
        !longer && !before.is_some_and(|c| c.is_ascii_alphanumeric())
    })
}

/// Returns the sentences that are excused, from a list that `UPDATE=1` rewrites.
fn excused(uncited: &BTreeSet<String>) -> BTreeSet<String> {
    let path = root().join("tests/house/uncited.txt");
    if std::env::var_os("UPDATE").is_some() {
        let mut list = String::from("# Sentences that no assertion and no test cites yet: only shrinks.\n");
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
fn invariants_are_cited_by_assertion_or_test() {
    let page = std::fs::read_to_string(root().join("docs/inside/invariants.md")).expect("the page");
    let code: Vec<_> = sources(&[".rs", ".java"])
        .into_iter()
        .filter(|file| ["crates/", "tests/", "java/"].iter().any(|folder| file.name.starts_with(folder)))
        .filter(|file| !file.name.starts_with("tests/house/"))
        .collect();
    let uncited: BTreeSet<String> =
        sentences(&page).into_iter().filter(|number| !code.iter().any(|file| cites(&file.text, number))).collect();
    let excused = excused(&uncited);
    let new: Vec<_> = uncited.difference(&excused).collect();
    let old: Vec<_> = excused.difference(&uncited).collect();
    assert!(new.is_empty(), "no assertion and no test cites {new:?}: guard the sentence, or remove it");
    assert!(old.is_empty(), "cited by now, or gone: take {old:?} out of tests/house/uncited.txt");
}

#[test]
fn a_citation_is_the_whole_number() {
    assert!(cites("// E1.1: as said", "E1.1"));
    assert!(cites("// as said (E1.1).", "E1.1"));
    assert!(!cites("// E1.12", "E1.1"));
    assert!(!cites("// E1.1.2", "E1.1"));
    assert!(!cites("// RW4", "W4"));
    assert!(!cites("// W45", "W4"));
}
