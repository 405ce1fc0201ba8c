//! The examples of the guide to the command run, and print what the guide shows.

use std::path::Path;

use crate::common::{cedrat, command, errors};
use crate::stores::{one_of_each, prepare};

const GUIDE: &str = include_str!("../../../../docs/use/command.md");

/// A line `$ cedrat …` of the guide, and the lines that it shows behind it.
fn examples() -> Vec<(Vec<&'static str>, Vec<&'static str>)> {
    let mut examples = Vec::new();
    for block in GUIDE.split("```console\n").skip(1) {
        for line in block.split("```").next().expect("it ends").lines() {
            match line.strip_prefix("$ cedrat ") {
                Some(arguments) => examples.push((arguments.split_whitespace().collect(), Vec::new())),
                None => examples.last_mut().expect("a block begins with a command").1.push(line),
            }
        }
    }
    examples
}

/// Whether a line has the parts between the signs of omission, in their order.
fn is_shown(line: &str, pattern: &str) -> bool {
    let mut rest = line;
    let mut parts = pattern.split('…').map(str::trim).filter(|part| !part.is_empty());
    parts.all(|part| {
        rest.find(part).is_some_and(|at| {
            rest = &rest[at + part.len()..];
            true
        })
    })
}

fn store_of_guide(folder: &Path) {
    one_of_each(&folder.join("bank")).close().expect("a checkpoint");
    one_of_each(&folder.join("shop")).close().expect("a checkpoint");
    prepare(&cedrat::open(folder.join("shop")).expect("it is whole"), b"order");
}

#[test]
fn examples_print_what_is_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    store_of_guide(folder.path());
    let examples = examples();
    assert!(!examples.is_empty(), "the guide has examples");
    for (arguments, shown) in examples {
        let output = command().args(&arguments).current_dir(folder.path()).output().expect("cedrat runs");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", errors(&output));
        let printed = String::from_utf8(output.stdout).expect("UTF-8");
        let mut lines = printed.lines();
        for pattern in shown {
            assert!(lines.any(|line| is_shown(line, pattern)), "{arguments:?} does not print {pattern:?}: {printed}");
        }
    }
}

#[test]
fn guide_names_every_subcommand() {
    let help = String::from_utf8(cedrat(&["--help"]).stdout).expect("UTF-8");
    let listed = help.split("Commands:").nth(1).expect("a list").split("\n\n").next().expect("its end");
    for name in listed.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next()) {
        let is_named = name == "help" || GUIDE.contains(&format!("| `cedrat {name}"));
        assert!(is_named, "docs/use/command.md has no row for {name}");
    }
}
