//! Manifests of the workspace and of its dependencies, as cargo reads them.

use std::process::Command;

use serde_json::Value;

/// Returns the packages that `cargo metadata` lists with these additional arguments.
fn packages(arguments: &[&str]) -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--offline"])
        .args(arguments)
        .current_dir(cedrat_tests::root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    metadata["packages"].as_array().expect("packages").clone()
}

/// Returns the packages of the workspace.
pub(crate) fn of_workspace() -> Vec<Value> {
    packages(&["--no-deps"])
}

/// Returns the packages of the workspace and all that they need on this platform. Cargo has fetched these for the build of this
/// test, so that no network is needed.
pub(crate) fn with_dependencies() -> Vec<Value> {
    packages(&["--filter-platform", "host-tuple"])
}

/// Whether the package is meant for a registry.
pub(crate) fn is_published(package: &Value) -> bool {
    package["publish"].is_null()
}

/// Returns the name and the version of a package.
pub(crate) fn name(package: &Value) -> String {
    format!("{} {}", string(package, "name"), string(package, "version"))
}

/// Returns a field of a package that is a string; an absent one is empty.
pub(crate) fn string<'a>(package: &'a Value, field: &str) -> &'a str {
    package[field].as_str().unwrap_or_default()
}

/// Returns the elements of a list of the manifest.
pub(crate) fn list<'a>(package: &'a Value, field: &str) -> &'a [Value] {
    package[field].as_array().map_or(&[], Vec::as_slice)
}
