//! The examples of the README: the first one runs, the fragments occur in the pages that explain them.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate is in crates/cedrat").to_path_buf()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).expect("a file of the repository")
}

/// The code blocks of a page: language and content.
fn code_blocks(page: &str) -> Vec<(String, String)> {
    page.split("```")
        .skip(1)
        .step_by(2)
        .filter_map(|block| block.split_once('\n'))
        .map(|(language, code)| (language.to_string(), code.to_string()))
        .collect()
}

#[test]
fn first_example_is_the_program_visits() {
    let (language, code) = code_blocks(&read("README.md")).into_iter().next().expect("an example");
    assert_eq!(language, "rust,no_run");
    let program = read("crates/cedrat/examples/visits.rs");
    assert_eq!(program.split_once("\n\n").map(|(_, code)| code), Some(code.as_str()));
}

#[test]
fn visits_are_counted_across_processes() {
    let test = std::env::current_exe().expect("the path of this test");
    let profile = test.ancestors().nth(2).expect("tests are built in target/PROFILE/deps");
    let visits = profile.join("examples/visits");
    assert!(visits.exists(), "the example is not built: run `cargo test -p cedrat` without `--test`");
    let folder = tempfile::tempdir().expect("a temporary directory");
    for visit in 1..=2 {
        let output = Command::new(&visits).current_dir(&folder).output().expect("the example starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("visit {visit}\n"));
    }
}

#[test]
fn fragments_occur_in_the_pages() {
    let pages: Vec<String> = ["operations", "heaps", "java-objects", "tables"]
        .iter()
        .map(|page| read(&format!("docs/use/{page}.md")))
        .collect();
    let blocks = code_blocks(&read("README.md"));
    let fragments: Vec<_> =
        blocks.iter().filter(|(language, _)| language == "rust,ignore" || language == "java").collect();
    assert_eq!(fragments.len(), pages.len(), "one fragment for each interface");
    for ((_, fragment), page) in fragments.into_iter().zip(&pages) {
        for line in fragment.lines() {
            assert!(page.lines().any(|known| known.trim().starts_with(line.trim())), "no page explains: {line}");
        }
    }
}
