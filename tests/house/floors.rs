//! The dependencies of the crates have one direction: a crate depends only on crates of lower layers.

use crate::metadata;

/// The layers, from the lowest up. A crate may use those above it in this list, never those below.
///
/// `check` stands below `structures` because their tests use it; a second test here verifies that only tests and the public
/// API do.
const FLOORS: [&str; 15] = [
    "cedrat-sync",
    "cedrat-media",
    "cedrat-wal",
    "cedrat-pages",
    "cedrat-heap-derive",
    "cedrat-heap",
    "cedrat-txn",
    "cedrat-check",
    "cedrat-structures",
    "cedrat-objects",
    "cedrat-graph",
    "cedrat",
    "cedrat-capi",
    "cedrat-cli",
    "cedrat-tests",
];

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

fn floor(name: &str) -> usize {
    FLOORS
        .iter()
        .position(|known| *known == name)
        .unwrap_or_else(|| panic!("{name} has no floor yet: give it one in FLOORS"))
}

#[test]
fn lower_rooms_do_not_know_upper_ones() {
    for edge in edges() {
        // A crate's own tests may build it once more, with its planted faults.
        let itself = edge.for_tests && edge.to == edge.from;
        assert!(
            itself || floor(&edge.to) < floor(&edge.from),
            "{} uses {}: this would be a staircase upwards",
            edge.from,
            edge.to
        );
    }
}

#[test]
fn what_ships_does_not_need_the_checker() {
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
    let mut crates: Vec<String> = std::fs::read_dir(cedrat_tests::root().join("crates"))
        .expect("crates")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.join("Cargo.toml").exists())
        .map(|path| match path.file_name().expect("a folder has a name").to_string_lossy() {
            name if name == "cedrat" => name.into_owned(),
            name => format!("cedrat-{name}"),
        })
        .chain(["cedrat-tests".to_string()])
        .collect();
    let mut floors = FLOORS.map(String::from).to_vec();
    crates.sort();
    floors.sort();
    assert_eq!(crates, floors);
}
