//! The script `x` names what is missing on a machine, and needs no more than its parts do.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// Runs `x` where the search path has only these programs, and returns what it reports; it must fail.
fn refused(arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a directory");
    for program in ["awk", "dirname", "readlink"] {
        let found =
            ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(program)).into_iter().find(|path| path.exists());
        symlink(found.expect("a usual program"), folder.path().join(program)).expect("a link");
    }
    let mut script = Command::new("/bin/bash");
    script.arg("x").args(arguments).current_dir(cedrat_tests::root());
    let output = script.env("PATH", folder.path()).env("CEDRAT_NO_INSTALL", "1").output().expect("bash runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    said
}

#[test]
fn rust_parts_need_no_java() {
    for arguments in [["test", "rust"], ["test", "wal"], ["lint", "rust"]] {
        let said = refused(&arguments);
        assert!(said.contains("Rust: https://rustup.rs"), "{said}");
        assert!(!said.contains("JDK") && !said.contains("maven") && !said.contains("postgresql"), "{said}");
    }
}

#[test]
fn missing_packages_are_named_at_once() {
    let said = refused(&["test"]);
    let packages = said.lines().find(|line| line.contains("apt-get install")).expect("a line with packages");
    for package in ["gcc", "strace", "valgrind", "make", "maven"] {
        assert_eq!(packages.split(' ').filter(|word| *word == package).count(), 1, "{package}: {said}");
    }
}

#[test]
fn unknown_parts_are_refused() {
    assert!(refused(&["test", "nothing"]).contains("no part named nothing"));
    assert!(refused(&["lint", "wal"]).contains("no part named wal"));
}
