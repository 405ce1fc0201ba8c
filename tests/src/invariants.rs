//! The invariants of `docs/inside/invariants.md`, and the tests, assertions and planted faults that cite them.
//!
//! A citation is the number of an invariant in the documentation comment of a test, in the message of an assertion, or in a row
//! of `tests/planted.txt`. Other comments are explanations: they guard nothing.

use std::collections::BTreeSet;
use std::fmt;

use crate::citations::{Citation, Language, citations};
use crate::{root, sources};

/// One numbered sentence. A number that ends in a letter is that of a part: what cites the whole cites the part.
#[derive(Clone, Debug)]
pub struct Invariant {
    /// Its number, as `E1.3` or `W4`.
    pub number: String,
    /// The sentence, in one line.
    pub sentence: String,
}

/// A row of `tests/planted.txt`: a fault, and the test that catches it.
#[derive(Clone, Debug)]
pub struct PlantedFault {
    /// Name of the fault point.
    pub fault: String,
    /// Number of the invariant that it breaks.
    pub invariant: String,
    /// Package of the test.
    pub package: String,
    /// Target of the test: `lib`, or the name of a file or a directory in `tests`.
    pub target: String,
    /// Path of the test in its target.
    pub test: String,
}

impl PlantedFault {
    /// Returns the path of the file with the test, or that of the directory if the target is `lib`.
    pub fn test_file(&self) -> String {
        let folder = self.package.strip_prefix("cedrat-").unwrap_or(&self.package);
        match self.target.as_str() {
            "lib" => format!("crates/{folder}/src"),
            "integration" => {
                let module = self.test.split("::").next().expect("a module");
                format!("crates/{folder}/tests/integration/{module}.rs")
            }
            target if folder == "tests" => match self.test.split_once("::") {
                Some((module, _)) => format!("tests/tests/{target}/{module}.rs"),
                None => format!("tests/tests/{target}.rs"),
            },
            target => format!("crates/{folder}/tests/{target}.rs"),
        }
    }
}

/// Evidence that an invariant is guarded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guard {
    /// A test.
    Test {
        /// Its file.
        file: String,
        /// Its name.
        name: String,
    },
    /// An assertion outside of tests, or in a function that tests share.
    Assertion {
        /// Its file.
        file: String,
    },
    /// A planted fault.
    Fault {
        /// Its name.
        name: String,
    },
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Guard::Test { file, name } => write!(f, "test       {file}::{name}"),
            Guard::Assertion { file } => write!(f, "assertion  {file}"),
            Guard::Fault { name } => write!(f, "fault      {name}"),
        }
    }
}

/// Returns the number of the invariant that this one is a part of: `E1.8` for `E1.8a`. Others are their own.
pub fn whole(number: &str) -> &str {
    number.trim_end_matches(|c: char| c.is_ascii_lowercase())
}

/// Returns the numbers of the invariants, without those of parts.
pub fn whole_numbers() -> BTreeSet<String> {
    invariants().iter().map(|invariant| whole(&invariant.number).to_string()).collect()
}

/// Returns the invariants, in the order of their page.
pub fn invariants() -> Vec<Invariant> {
    parse(&std::fs::read_to_string(root().join("docs/inside/invariants.md")).expect("the page"))
}

/// Items `- **NUMBER** sentence`, with the lines that continue them.
fn parse(page: &str) -> Vec<Invariant> {
    let mut found: Vec<Invariant> = Vec::new();
    let mut continues = false;
    for line in page.lines() {
        let text = line.trim_start();
        if let Some((number, sentence)) = text.strip_prefix("- **").and_then(|rest| rest.split_once("**")) {
            found.push(Invariant { number: number.to_string(), sentence: sentence.trim().to_string() });
            continues = true;
        } else if continues && line.starts_with(' ') && !text.is_empty() {
            let sentence = &mut found.last_mut().expect("an item has begun").sentence;
            *sentence += " ";
            *sentence += text.trim_end();
        } else {
            continues = false;
        }
    }
    found
}

/// Returns the rows of `tests/planted.txt`.
pub fn planted_faults() -> Vec<PlantedFault> {
    let table = std::fs::read_to_string(root().join("tests/planted.txt")).expect("the table");
    let row = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [fault, invariant, package, target, test, sentence] = fields[..] else {
            panic!("a row has six fields, separated by tabs: {line}")
        };
        assert!(sentence.ends_with('.'), "a row ends with a sentence: {line}");
        let [fault, invariant, package, target, test] = [fault, invariant, package, target, test].map(String::from);
        PlantedFault { fault, invariant, package, target, test }
    };
    table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(row).collect()
}

/// Returns all citations in tests and assertions of the repository, but for those of the house rules.
pub fn all_citations() -> Vec<Citation> {
    sources(&[".rs", ".java"])
        .into_iter()
        .filter(|file| ["crates/", "tests/", "java/"].iter().any(|folder| file.name.starts_with(folder)))
        .filter(|file| !file.name.starts_with("tests/lint/") && !file.name.starts_with("tests/src/"))
        .flat_map(|file| citations(&file))
        .collect()
}

/// Returns what cites this number: for a whole invariant also what cites one of its parts.
pub fn guards(number: &str, citations: &[Citation], faults: &[PlantedFault]) -> BTreeSet<Guard> {
    let of_code =
        citations.iter().filter(|citation| is_citable(number, citation.language) && cites(&citation.text, number));
    let of_code = of_code.map(|citation| match &citation.test {
        Some(name) => Guard::Test { file: citation.file.clone(), name: name.clone() },
        None => Guard::Assertion { file: citation.file.clone() },
    });
    let of_faults = faults.iter().filter(|row| cites(&row.invariant, number)).flat_map(|row| {
        let name = row.test.rsplit("::").next().expect("a name").to_string();
        let file = row.test_file();
        let is_known = citations.iter().any(|citation| {
            citation.file.starts_with(&file) && citation.test.as_ref() == Some(&name) && cites(&citation.text, number)
        });
        let test = (!is_known).then_some(Guard::Test { file, name });
        [Some(Guard::Fault { name: row.fault.clone() }), test].into_iter().flatten()
    });
    of_code.chain(of_faults).collect()
}

/// Returns whether code in this language cites the invariant by this number. The oracle's are those of Java alone, and `S1` in
/// Java is a number of the class that says so.
fn is_citable(number: &str, language: Language) -> bool {
    match number.chars().next() {
        Some('J') => true,
        Some('O') => language == Language::Java,
        _ => language == Language::Rust,
    }
}

/// Returns whether `text` contains `number`, but not as the beginning of another one: `E1.1` is in `E1.1a`, which is a part of
/// it, and not in `E1.12`.
pub fn cites(text: &str, number: &str) -> bool {
    let is_whole = whole(number) == number;
    text.match_indices(number).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let mut after = text[at + number.len()..].chars();
        let longer = match after.next() {
            Some('.') => after.next().is_some_and(|c| c.is_ascii_digit()),
            Some(c) if c.is_ascii_lowercase() => !is_whole || after.next().is_some_and(|c| c.is_ascii_alphanumeric()),
            Some(c) => c.is_ascii_alphanumeric(),
            None => false,
        };
        !longer && !before.is_some_and(|c| c.is_ascii_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citation_is_the_whole_number() {
        assert!(cites("E1.1: as said", "E1.1"));
        assert!(cites("as said (E1.1).", "E1.1"));
        assert!(!cites("E1.12", "E1.1"));
        assert!(!cites("E1.1.2", "E1.1"));
        assert!(!cites("RW4", "W4"));
        assert!(!cites("W45", "W4"));
        assert!(cites("W4b: as said", "W4"));
        assert!(cites("W4b", "W4b"));
        assert!(!cites("W4", "W4b"));
        assert!(!cites("W4b", "W4a"));
        assert!(!cites("W4bytes", "W4"));
    }

    #[test]
    fn items_continue_over_lines() {
        let page = "# Page\n\n- **E1.1** One\n  sentence.\n  - **E1.1.1** Another.\n\n*Why:* because\n  so.\n- **W4** Third.\n";
        let found: Vec<_> = parse(page).into_iter().map(|item| (item.number, item.sentence)).collect();
        let wanted = [("E1.1", "One sentence."), ("E1.1.1", "Another."), ("W4", "Third.")];
        assert_eq!(found, wanted.map(|(number, sentence)| (number.to_string(), sentence.to_string())));
    }

    #[test]
    fn numbers_of_other_languages_guard_nothing() {
        let of = |language, number: &str| Citation {
            file: String::new(),
            language,
            test: Some("test".to_string()),
            text: number.to_string(),
        };
        assert!(guards("R1", &[of(Language::Java, "R1")], &[]).is_empty());
        assert!(guards("O1", &[of(Language::Rust, "O1")], &[]).is_empty());
        assert_eq!(guards("R1", &[of(Language::Rust, "R1")], &[]).len(), 1);
        assert_eq!(guards("O1", &[of(Language::Java, "O1")], &[]).len(), 1);
    }
}
