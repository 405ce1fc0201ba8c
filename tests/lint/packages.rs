//! The crates can be published: their manifests, and the contents of their packages.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::metadata::{self, is_published, list, name, string};

fn published() -> Vec<Value> {
    metadata::of_workspace().into_iter().filter(is_published).collect()
}

/// Runs a command that must succeed.
#[track_caller]
fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Packages all published crates into an empty directory, as `cargo publish` does; returns the directory, and their names with
/// versions in the order of packaging.
///
/// Nothing is compiled: that needs a quarter of an hour, and `.github/workflows/ci.yml` does it.
fn packaged() -> (tempfile::TempDir, Vec<String>) {
    let folder = tempfile::tempdir().expect("a directory");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["package", "--workspace", "--no-verify", "--locked", "--offline", "--allow-dirty", "--color=never"]);
    for package in metadata::of_workspace().iter().filter(|package| !is_published(package)) {
        cargo.args(["--exclude", string(package, "name")]);
    }
    let output = run(cargo.arg("--target-dir").arg(folder.path()).current_dir(cedrat_tests::root()));
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    let names = messages.lines().filter_map(|line| line.trim_start().strip_prefix("Packaging "));
    let names = names.map(|line| line.split(' ').take(2).collect::<Vec<_>>().join("-").replace("-v0", "-0")).collect();
    (folder, names)
}

/// Returns the paths that a source file includes when it is compiled outside tests, relative to its directory.
fn included(source: &str) -> Vec<&str> {
    // Modules of tests are last in a file.
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let code = code.split("#[cfg(doctest)]").next().unwrap_or_default();
    let calls = ["include_str!(\"", "include_bytes!(\"", "#[path = \""];
    calls.iter().flat_map(|call| code.split(call).skip(1)).filter_map(|rest| rest.split('"').next()).collect()
}

/// Returns the Rust files below a directory.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a directory of a package");
    let paths = entries.map(|entry| entry.expect("an entry of a package").path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => rust_files(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .collect()
}

#[test]
fn published_crates_describe_themselves() {
    for package in published() {
        for field in ["description", "license", "repository", "rust_version"] {
            assert!(!string(&package, field).is_empty(), "{}: no {field}", name(&package));
        }
        for field in ["keywords", "categories"] {
            assert!((1..=5).contains(&list(&package, field).len()), "{}: one to five {field}", name(&package));
        }
    }
}

/// An exact requirement of a library would exclude every program that needs another version of the same crate.
#[test]
fn requirements_admit_compatible_versions() {
    for package in metadata::of_workspace() {
        for dependency in list(&package, "dependencies") {
            let (needed, requirement) = (string(dependency, "name"), string(dependency, "req"));
            let is_own_test = dependency["kind"] == "dev" && needed == string(&package, "name");
            let own = dependency["path"].is_string().then(|| format!("^{}", string(&package, "version")));
            let is_caret = requirement.starts_with('^') && own.is_none_or(|version| version == requirement);
            assert!(is_own_test || is_caret, "{}: requirement {requirement} of {needed}", name(&package));
        }
    }
}

#[test]
fn only_crates_for_users_are_published() {
    let unpublished: Vec<String> = metadata::of_workspace()
        .iter()
        .filter(|package| !is_published(package))
        .map(|package| string(package, "name").to_string())
        .collect();
    assert_eq!(unpublished, ["cedrat-tests"]);
    for workspace in ["bench", "fuzz"] {
        let manifest = cedrat_tests::root().join(workspace).join("Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).expect("a manifest");
        assert!(manifest.contains("\npublish = false\n"), "{workspace}/Cargo.toml has no `publish = false`");
    }
}

#[test]
fn crates_package_after_their_dependencies() {
    let (folder, names) = packaged();
    let published = published();
    assert_eq!(names.len(), published.len(), "{names:?}");
    for package in &published {
        let own = name(package).replace(' ', "-");
        let place = names.iter().position(|name| *name == own).unwrap_or_else(|| panic!("{own} is not packaged"));
        for dependency in list(package, "dependencies") {
            let needed = published.iter().find(|other| other["name"] == dependency["name"] && other != &package);
            let needed = needed.map(|other| name(other).replace(' ', "-"));
            assert!(
                needed.is_none_or(|needed| names[..place].contains(&needed)),
                "{own} is packaged too early: {names:?}"
            );
        }
        check_contents(folder.path(), &own);
    }
}

/// Unpacks a package and verifies that it has its licences, and every file that its compilation reads.
fn check_contents(folder: &Path, package: &str) {
    let archive = folder.join("package").join(format!("{package}.crate"));
    run(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(folder));
    let root = folder.join(package);
    let mut wanted: Vec<PathBuf> = ["LICENSE-MIT", "LICENSE-APACHE"].map(|file| root.join(file)).to_vec();
    if package.starts_with("cedrat-0") {
        wanted.push(root.join("README.md"));
    }
    if package.starts_with("cedrat-capi-") {
        wanted.extend(
            ["include/cedrat.h", "include/cedrat_stm.h", "install", "cedrat.pc.in"].map(|file| root.join(file)),
        );
    }
    for source in rust_files(&root.join("src")) {
        let text = std::fs::read_to_string(&source).expect("a Rust file");
        let beside = source.parent().expect("a directory");
        wanted.extend(included(&text).iter().map(|path| beside.join(path)));
    }
    for file in wanted {
        let found = file.canonicalize().unwrap_or_else(|error| panic!("{package}: {}: {error}", file.display()));
        let unpacked = root.canonicalize().expect("the unpacked package");
        assert!(found.starts_with(unpacked), "{package}: {} is outside the package", file.display());
    }
}
