//! Rules of style that a machine can check.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cedrat_tests::{SourceFile, root, sources};

/// Longer functions are on the list `long_functions.txt`, which only shrinks.
const FUNCTION_LINES_MAX: usize = 70;

/// Largest length of a code file, in lines: a longer one probably has two responsibilities.
const FILE_LINES_MAX: usize = 800;

/// The only modules with unsafe code, each with the module that numbers the reasons.
const UNSAFE_MODULES: [(&str, &str); 19] = [
    ("crates/capi/src/border.rs", "crates/capi/src/border.rs"),
    ("crates/capi/src/changes.rs", "crates/capi/src/border.rs"),
    ("crates/capi/src/copies.rs", "crates/capi/src/border.rs"),
    ("crates/capi/src/exit.rs", "crates/capi/src/exit.rs"),
    ("crates/capi/src/faces.rs", "crates/capi/src/border.rs"),
    ("crates/capi/src/graphs.rs", "crates/capi/src/border.rs"),
    ("crates/capi/src/logs.rs", "crates/capi/src/border.rs"),
    ("crates/capi/src/options.rs", "crates/capi/src/border.rs"),
    ("crates/capi/src/prepared.rs", "crates/capi/src/border.rs"),
    ("crates/capi/src/words.rs", "crates/capi/src/border.rs"),
    ("crates/heap/src/region.rs", "crates/heap/src/region.rs"),
    ("crates/heap/src/view.rs", "crates/heap/src/view.rs"),
    ("crates/media/src/aligned.rs", "crates/media/src/aligned.rs"),
    ("crates/pages/src/frames.rs", "crates/pages/src/frames.rs"),
    ("crates/pages/src/view.rs", "crates/pages/src/frames.rs"),
    ("crates/sync/src/fetch.rs", "crates/sync/src/fetch.rs"),
    ("crates/sync/src/hurry.rs", "crates/sync/src/hurry.rs"),
    ("crates/sync/src/own.rs", "crates/sync/src/own.rs"),
    ("crates/wal/src/crc.rs", "crates/wal/src/crc.rs"),
];

/// Words that mark unfinished work; written apart, so that this file may contain them.
fn unfinished_words() -> [String; 4] {
    ["TO DO", "FIX ME", "X XX", "HA CK"].map(|word| word.replace(' ', ""))
}

fn rust() -> Vec<SourceFile> {
    sources(&[".rs"])
}

fn java() -> Vec<SourceFile> {
    sources(&[".java"])
}

/// Returns the number of code lines of each function, by its name and file.
fn function_lengths(file: &SourceFile) -> BTreeMap<String, usize> {
    let mut lengths = BTreeMap::new();
    let lines: Vec<&str> = file.text.lines().collect();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = &line[..line.len() - code.len()];
        let name = if file.name.ends_with(".java") { method_name(code) } else { function_name(code) };
        let Some(name) = name else {
            continue;
        };
        // The formatters align the closing brace with the first letter of the function's first line.
        let (body_end, declaration_end) = (format!("{indent}}}"), format!("{indent})"));
        let is_end = |line: &&str| *line == body_end || line.starts_with(&declaration_end) && line.ends_with(';');
        let end = lines[start..].iter().position(is_end);
        if let Some(length) = end {
            let longest = lengths.entry(format!("{}::{name}", file.name)).or_insert(0usize);
            *longest = (*longest).max(length + 1);
        }
    }
    lengths
}

/// Returns the name of the function that begins in this line of code and does not end in it.
fn function_name(code: &str) -> Option<&str> {
    if code.starts_with("//") || code.ends_with(';') || code.ends_with('}') {
        return None;
    }
    let mut rest = code;
    loop {
        let (word, behind) = rest.split_once(' ')?;
        match word {
            "fn" => return behind.split(['(', '<']).next(),
            "pub" | "const" | "async" | "unsafe" | "extern" | "\"C\"" => rest = behind,
            word if word.starts_with("pub(") => rest = behind,
            _ => return None,
        }
    }
}

/// Returns the name of the Java method or constructor that begins in this line of code: names stand before its parenthesis,
/// no keyword of a statement or of a type among them.
fn method_name(code: &str) -> Option<&str> {
    const OTHER: [&str; 12] =
        ["if", "for", "while", "switch", "try", "catch", "else", "return", "new", "throw", "record", "synchronized"];
    let (declared, _) = code.split_once('(')?;
    let is_statement = !code.starts_with(|c: char| c.is_alphabetic() || c == '<')
        || code.ends_with([';', '}'])
        || declared.contains("->");
    let mut words = declared.split([' ', '<']);
    if is_statement || declared.contains(['=', '.', '"', '!', '|', ':']) || words.any(|word| OTHER.contains(&word)) {
        return None;
    }
    let name = declared.split(' ').next_back().unwrap_or("");
    // A call that goes on in the next line has no type before it; a constructor has none either, but a capital.
    (declared.contains(' ') || name.starts_with(char::is_uppercase)).then_some(name).filter(|name| !name.is_empty())
}

fn long_functions() -> BTreeMap<String, usize> {
    rust().iter().chain(&java()).flat_map(function_lengths).filter(|(_, length)| *length > FUNCTION_LINES_MAX).collect()
}

#[test]
fn long_functions_do_not_creep_in() {
    let path = root().join("tests/lint/long_functions.txt");
    let now = long_functions();
    if std::env::var_os("UPDATE").is_some() {
        let mut list = String::from("# Functions that are longer than they should be: only shrink.\n");
        for (name, length) in &now {
            writeln!(list, "{length} {name}").expect("writing to a string");
        }
        std::fs::write(&path, list).expect("the list");
    }
    let list = std::fs::read_to_string(&path).expect("the list");
    let allowed: BTreeMap<&str, usize> = list
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .map(|(length, name)| (name, length.parse().expect("a number of lines")))
        .collect();
    for (name, length) in &now {
        let allowed = *allowed.get(name.as_str()).unwrap_or(&FUNCTION_LINES_MAX);
        assert!(*length <= allowed, "{name} has {length} lines, {allowed} are allowed: which two things does it do?");
    }
    for (name, allowed) in allowed {
        assert!(
            now.get(name) == Some(&allowed),
            "{name} became shorter: say so in tests/lint/long_functions.txt (UPDATE=1 does it)"
        );
    }
}

#[test]
fn files_keep_one_theme() {
    for file in rust().into_iter().chain(java()) {
        let lines = file.text.lines().count();
        assert!(lines <= FILE_LINES_MAX, "{} has {lines} lines: which two things does it know?", file.name);
    }
}

#[test]
fn nothing_is_left_for_later() {
    for file in sources(&[".rs", ".java", ".md", ".toml", ".xml", ".c", ".h", "x", ".txt"]) {
        for (number, line) in file.text.lines().enumerate() {
            for word in unfinished_words() {
                let found = line.split(|c: char| !c.is_alphanumeric()).any(|part| part == word);
                assert!(!found, "{}:{}: {word}", file.name, number + 1);
            }
        }
    }
}

#[test]
fn tests_are_neither_switched_off_nor_timed() {
    let ignored = ["#[ig", "nore"].concat();
    let sleeps = ["::sl", "eep("].concat();
    // A figure that needs a quiet disk may wait for it. Of no time a sleep is a step of the seeded scheduler.
    for file in rust().iter().filter(|file| !file.name.starts_with("bench/")) {
        for (number, line) in file.text.lines().enumerate() {
            let place = format!("{}:{}", file.name, number + 1);
            assert!(!line.contains(&ignored), "{place}: a test is switched off");
            let waits = line.contains(&sleeps) && !line.contains("Duration::ZERO");
            assert!(!waits, "{place}: wait for what you wait for, not for time to pass");
        }
    }
}

#[test]
fn unsafe_code_lives_in_listed_modules() {
    let word = ["uns", "afe"].concat();
    for file in rust().iter().filter(|file| file.name.starts_with("crates/")) {
        let uses = file.text.lines().any(|line| {
            let code = line.split("//").next().unwrap_or("");
            code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
        });
        let door = UNSAFE_MODULES.iter().find(|(room, _)| *room == file.name).map(|(_, door)| door);
        assert!(!uses || door.is_some(), "{} has unsafe code; see UNSAFE_MODULES", file.name);
        assert!(uses || door.is_none(), "{} needs no place in UNSAFE_MODULES", file.name);
        if let Some(door) = door {
            let door = std::fs::read_to_string(root().join(door)).expect("a module");
            assert!(door.contains("//! 1. "), "{} does not number its reasons at the door", file.name);
        }
    }
}

#[test]
fn crates_forbid_unsafe_code_unless_listed() {
    for file in rust() {
        let root = file.name.ends_with("/src/lib.rs") || file.name.ends_with("/src/main.rs");
        if !root || !file.name.starts_with("crates/") {
            continue;
        }
        let folder = file.name.trim_end_matches("lib.rs").trim_end_matches("main.rs");
        let wanted = if UNSAFE_MODULES.iter().any(|(room, _)| room.starts_with(folder)) {
            "#![deny(unsafe_code)]"
        } else {
            "#![forbid(unsafe_code)]"
        };
        assert!(file.text.contains(wanted), "{}: say {wanted}", file.name);
    }
}

#[test]
fn function_length_counts_name_to_brace() {
    let text = "impl A {\n    pub(crate) fn b<T>(\n        c: T,\n    ) {\n        d();\n    }\n}\n";
    let file = SourceFile { name: "a.rs".to_string(), text: text.to_string() };
    let lengths = function_lengths(&file);
    assert_eq!(lengths.get("a.rs::b"), Some(&5), "{lengths:?}");
    let text = "class A {\n    private <T> List<T> b(\n            int c)\n            throws E {\n        if (d()) {\n        }\n    }\n}\n";
    let file = SourceFile { name: "A.java".to_string(), text: text.to_string() };
    let lengths = function_lengths(&file);
    assert_eq!(lengths.get("A.java::b"), Some(&6), "{lengths:?}");
    assert_eq!(lengths.len(), 1, "{lengths:?}");
}
