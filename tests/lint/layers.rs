//! The dependencies of the crates have one direction: a crate depends only on crates of lower layers.

use std::collections::BTreeMap;

use crate::metadata;

#[derive(Debug)]
struct Edge {
    from: String,
    to: String,
    /// Whether only tests have this dependency.
    for_tests: bool,
}

/// Returns the dependencies between the crates of the workspace.
fn edges() -> Vec<Edge> {
    let mut edges = Vec::new();
    for package in metadata::of_workspace() {
        let from = package["name"].as_str().expect("a name");
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let to = dependency["name"].as_str().expect("a name");
            if to.starts_with("cedrat") {
                edges.push(Edge { from: from.to_string(), to: to.to_string(), for_tests: dependency["kind"] == "dev" });
            }
        }
    }
    edges
}

/// Returns the layer of each crate, by its package name: the table in `ARCHITECTURE.md`.
///
/// `check` is below `structures` because their tests use it; a second test here verifies that only tests and the public API
/// do.
fn layers() -> BTreeMap<String, usize> {
    let page = std::fs::read_to_string(cedrat_tests::root().join("ARCHITECTURE.md")).expect("the architecture");
    let mut layers = BTreeMap::new();
    for line in page.lines() {
        let mut columns = line.split('|').map(str::trim).skip(1);
        let (Some(Ok(layer)), Some(folders)) = (columns.next().map(str::parse), columns.next()) else { continue };
        for folder in folders.split('`').skip(1).step_by(2) {
            let name = folder.trim_start_matches("crates/");
            let package = if name == "cedrat" { name.to_string() } else { format!("cedrat-{name}") };
            layers.insert(package, layer);
        }
    }
    layers
}

#[test]
fn lower_layers_do_not_know_upper_ones() {
    let layers = layers();
    for edge in edges() {
        let layer = |name: &str| {
            *layers.get(name).unwrap_or_else(|| panic!("{name} is not in the table of layers in ARCHITECTURE.md"))
        };
        // A crate's own tests may build it once more, with its planted faults.
        let is_own_test = edge.for_tests && edge.to == edge.from;
        assert!(
            is_own_test || layer(&edge.to) < layer(&edge.from),
            "{} depends on {}, which is not in a lower layer of ARCHITECTURE.md",
            edge.from,
            edge.to
        );
    }
}

#[test]
fn products_do_not_depend_on_checker() {
    for edge in edges() {
        let may = ["cedrat", "cedrat-cli", "cedrat-tests"].contains(&edge.from.as_str());
        assert!(
            edge.to != "cedrat-check" || edge.for_tests || may,
            "{} needs cedrat-check outside its tests",
            edge.from
        );
    }
}

#[test]
fn every_crate_has_a_layer() {
    let packages: Vec<String> =
        metadata::of_workspace().iter().map(|package| package["name"].as_str().expect("a name").to_string()).collect();
    let listed: Vec<String> = layers().into_keys().collect();
    for package in &packages {
        assert!(listed.contains(package), "{package} is not in the table of layers in ARCHITECTURE.md");
    }
    for package in &listed {
        assert!(packages.contains(package), "ARCHITECTURE.md lists {package}, which the workspace does not have");
    }
}
