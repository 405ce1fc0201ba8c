//! Licences, sources and compiler versions of the dependencies. `deny.toml` lists what is allowed.

use crate::metadata::{self, name, string};

/// Returns the strings of the list `key` in `deny.toml`, which is written in one line.
fn allowed(key: &str) -> Vec<String> {
    let text = std::fs::read_to_string(cedrat_tests::root().join("deny.toml")).expect("deny.toml");
    let list = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = [")).expect("a list of deny.toml");
    list.split('"').skip(1).step_by(2).map(String::from).collect()
}

/// Whether a licence expression can be satisfied by allowed licences: `OR` (once also `/`) offers a choice, `AND` binds more
/// closely, and a group in parentheses most closely.
fn is_satisfied(expression: &str, allowed: &[String]) -> bool {
    let mut expression = expression.replace('/', " OR ");
    // The first closing parenthesis ends a group without groups; the group becomes a licence that is allowed or not.
    while let Some((before, rest)) = expression.split_once(')') {
        let Some((before, group)) = before.rsplit_once('(') else { return false };
        expression = format!("{before}{}{rest}", if is_satisfied(group, allowed) { "true" } else { "false" });
    }
    expression.split(" OR ").any(|choice| {
        let mut licences = choice.split(" AND ").map(str::trim);
        licences.all(|licence| licence == "true" || allowed.iter().any(|known| known == licence))
    })
}

/// Returns the numbers of a compiler version, `1.95` or `1.85.0`.
fn compiler(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().expect("a number")).collect()
}

#[test]
fn dependencies_have_allowed_licences() {
    let licences = allowed("allow");
    for package in metadata::with_dependencies() {
        let licence = string(&package, "license");
        assert!(is_satisfied(licence, &licences), "{}: licence {licence:?} is not in deny.toml", name(&package));
    }
}

#[test]
fn dependencies_come_from_allowed_registries() {
    let registries = allowed("allow-registry");
    for package in metadata::with_dependencies() {
        // A path has no source.
        let Some(source) = package["source"].as_str() else { continue };
        let is_known = source.strip_prefix("registry+").is_some_and(|url| registries.iter().any(|known| known == url));
        assert!(is_known, "{}: source {source} is not in deny.toml", name(&package));
    }
}

#[test]
fn dependencies_build_with_minimum_compiler() {
    let packages = metadata::with_dependencies();
    let own = |package: &serde_json::Value| package["source"].is_null();
    let minimum: Vec<u32> = packages.iter().find(|package| own(package)).map_or_else(Vec::new, |package| {
        compiler(package["rust_version"].as_str().expect("Cargo.toml states rust-version"))
    });
    for package in &packages {
        let needed = package["rust_version"].as_str().map(compiler);
        if own(package) {
            assert_eq!(needed.as_ref(), Some(&minimum), "{}: rust-version is not the workspace's", name(package));
        } else if let Some(needed) = needed {
            assert!(
                needed[..2] <= minimum[..2],
                "{} needs Rust {needed:?}: raise rust-version in Cargo.toml",
                name(package)
            );
        }
    }
}

#[test]
fn licence_expressions_are_evaluated() {
    let allowed = ["MIT".to_string(), "Unicode-3.0".to_string()];
    for satisfied in ["MIT", "MIT/Apache-2.0", "Zlib OR MIT", "((MIT OR Zlib)) AND (Unicode-3.0)"] {
        assert!(is_satisfied(satisfied, &allowed), "{satisfied}");
    }
    for unsatisfied in
        ["", "GPL-3.0-only", "MIT AND Zlib", "(MIT OR Zlib) AND GPL-3.0-only", "(Zlib) OR (GPL-3.0-only)"]
    {
        assert!(!is_satisfied(unsatisfied, &allowed), "{unsatisfied}");
    }
}
