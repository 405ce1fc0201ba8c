//! Completions and manual pages.

use std::collections::BTreeSet;
use std::process::Command;

use crate::common::{cedrat, errors, files, printed, text};

/// The subcommands that `--help` lists.
fn subcommands() -> Vec<String> {
    let help = printed(&cedrat(&["--help"]));
    let listed = help.split("Commands:").nth(1).expect("a list").split("\n\n").next().expect("its end").to_owned();
    let names = listed.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next().map(str::to_owned));
    names.filter(|name| name != "help").collect()
}

#[test]
fn scripts_complete_every_subcommand() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = printed(&cedrat(&["completions", shell]));
        for name in subcommands() {
            assert!(script.contains(&name), "{shell} does not complete {name}");
        }
        assert!(script.contains("class-tag"), "{shell}");
    }
    let refused = cedrat(&["completions", "cmd"]);
    assert_eq!(refused.status.code(), Some(2), "{}", errors(&refused));
}

/// Bash itself reads the script, and completes with it.
#[test]
fn bash_completes_by_script() {
    let script = "source <(\"$1\" completions bash); COMP_WORDS=(cedrat sal); COMP_CWORD=1; \
                  _cedrat cedrat sal cedrat; echo \"${COMPREPLY[*]}\"";
    let bash = Command::new("bash").args(["-c", script, "bash", env!("CARGO_BIN_EXE_cedrat")]).output();
    let Ok(output) = bash else { return eprintln!("not tested: there is no bash here") };
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "salvage", "{}", errors(&output));
}

#[test]
fn every_subcommand_has_manual_page() {
    let folder = tempfile::tempdir().expect("a folder");
    printed(&cedrat(&["man", text(folder.path())]));
    let pages = files(folder.path());
    let names: BTreeSet<&str> = pages.keys().map(|path| &path[text(folder.path()).len() + 1..]).collect();
    assert!(names.contains("cedrat.1") && names.contains("cedrat-bank-run.1"), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("worker")), "{names:?}");
    for name in subcommands() {
        let page = &pages[&format!("{}/cedrat-{name}.1", text(folder.path()))];
        assert!(String::from_utf8_lossy(page).contains(&format!(".TH cedrat-{name} 1")), "{name}");
    }
    let absent = cedrat(&["man", text(&folder.path().join("absent"))]);
    assert!(absent.status.code() == Some(1) && errors(&absent).contains("does not exist"), "{}", errors(&absent));
}
