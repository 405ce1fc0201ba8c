//! `cedrat salvage`: whatever is damaged, everything that whole pages have is in the new store.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use cedrat::graph::{Graph, Reference};
use cedrat::heap::HeapOptions;
use cedrat::objects::{self, Objects};
use cedrat::prelude::*;
use cedrat::structures::{Catalogue, Kind, RawArrayList, RawHashTable, RawList, RawPageList, Records};
use serde_json::Value;

use crate::common::{cedrat, errors, files, text};
use crate::dump::with_graph;
use crate::face::killed_bank;
use crate::stores::{add_foreign, destroy, one_of_each};

/// The bytes of the elements of each structure, in their order where they have one.
type Contents = BTreeMap<String, Vec<Vec<u8>>>;

fn contents_of(store: &Store) -> Contents {
    let catalogue = Catalogue::open(store).expect("it is there");
    let read = |txn: &mut Txn| {
        let mut all = Contents::new();
        for named in catalogue.list(txn)? {
            let mut elements: Vec<Vec<u8>> = match named.kind {
                Kind::HashTable => RawHashTable::open(store, named.root)?
                    .iter(txn)?
                    .map(|entry| entry.map(|(key, value)| [key, value].concat()))
                    .collect::<Result<_>>()?,
                Kind::ArrayList => RawArrayList::open(store, named.root)?.iter(txn)?.collect::<Result<_>>()?,
                Kind::List => RawList::open(store, named.root)?.iter(txn)?.collect::<Result<_>>()?,
                Kind::PageList => RawPageList::open(store, named.root)?.iter(txn)?.collect::<Result<_>>()?,
                Kind::Records => {
                    Records::open_root(store, named.root)?.all(txn)?.into_iter().map(|(_, it)| it).collect()
                }
                Kind::Objects => {
                    let objects = Objects::at_root(store, named.root, objects::Options::default())?;
                    let ids = objects.ids(txn)?;
                    ids.into_iter().map(|id| objects.read(txn, id, <[u8]>::to_vec)).collect::<Result<_>>()?
                }
                _ => continue,
            };
            if !matches!(named.kind, Kind::ArrayList | Kind::List | Kind::PageList) {
                elements.sort();
            }
            all.insert(named.name, elements);
        }
        Ok(all)
    };
    store.transact(read).expect("it is not locked")
}

fn contents_at(directory: &Path) -> Contents {
    let store = cedrat::open(directory).expect("it is whole");
    store.check().expect("it is whole");
    contents_of(&store)
}

fn copy(from: &Path, to: &Path) {
    for (path, bytes) in files(from) {
        let path = to.join(&path[text(from).len() + 1..]);
        fs::create_dir_all(path.parent().expect("a folder")).expect("room");
        fs::write(path, bytes).expect("room");
    }
}

/// Runs the command, which never panics and changes nothing; returns its report.
fn salvaged(from: &Path, to: &Path) -> Value {
    let before = files(from);
    let output = cedrat(&["salvage", text(from), text(to), "--json"]);
    assert!(!errors(&output).contains("panicked"), "{}", errors(&output));
    assert!(files(from) == before, "a file was changed");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", errors(&output)));
    assert_eq!(output.status.code(), Some(if report["ok"] == true { 0 } else { 1 }), "{report}");
    report
}

#[test]
fn whole_store_is_saved_completely() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = one_of_each(&folder.path().join("store"));
    let contents = contents_of(&store);
    add_foreign(&store);
    store.close().expect("a checkpoint");
    let report = salvaged(&folder.path().join("store"), &folder.path().join("saved"));
    assert_eq!((report["ok"].as_bool(), report["is_recovered"].as_bool()), (Some(true), Some(true)), "{report}");
    assert_eq!(report["skipped"][0], "foreign, a structure of kind 1024");
    assert_eq!(contents_at(&folder.path().join("saved")), contents);
    let saved = cedrat::open(folder.path().join("saved")).expect("it is whole");
    assert_eq!(saved.memory().heap("heap").expect("it is there").verify().expect("it is sound").bytes, 300);
}

#[test]
fn unrecovered_store_is_saved_as_recovered() {
    let folder = tempfile::tempdir().expect("a folder");
    let (bank, saved) = (folder.path().join("bank"), folder.path().join("saved"));
    killed_bank(&bank);
    let report = salvaged(&bank, &saved);
    assert_eq!((report["ok"].as_bool(), report["is_recovered"].as_bool()), (Some(true), Some(true)), "{report}");
    assert_eq!(contents_at(&saved), contents_at(&bank));
}

/// The pages of a page file that contain each element.
struct Places<'c> {
    contents: &'c Contents,
    by_element: BTreeMap<&'c [u8], BTreeSet<u64>>,
}

impl<'c> Places<'c> {
    fn of(contents: &'c Contents, pages: &[u8]) -> Places<'c> {
        let mut by_element = BTreeMap::new();
        for element in contents.iter().filter(|(name, _)| *name != "array").flat_map(|(_, elements)| elements) {
            let has = |page: &[u8]| page.windows(element.len()).any(|bytes| bytes == element);
            let found: BTreeSet<u64> =
                pages.chunks(4096).zip(0..).filter(|(page, _)| has(page)).map(|(_, number)| number).collect();
            assert!(!found.is_empty(), "the store is closed");
            by_element.insert(&element[..], found);
        }
        Places { contents, by_element }
    }

    /// Checks that nothing of whole pages is missing, and that nothing was invented.
    fn compare(&self, saved: &Contents, destroyed: &BTreeSet<u64>, roots: &BTreeMap<String, u64>, seed: u64) {
        let is_whole = |element: &[u8]| self.by_element[element].is_disjoint(destroyed);
        for (name, elements) in self.contents {
            let is_rooted = !destroyed.contains(&roots[name]);
            let Some(found) = saved.get(name) else {
                assert!(name == "array" && !is_rooted, "seed {seed}: {name} is missing");
                continue;
            };
            if name == "array" {
                let lost = found.iter().zip(elements).filter(|(found, element)| found != element);
                let lost: Vec<_> = lost.map(|(found, _)| found).collect();
                assert!(lost.iter().all(|found| found.iter().all(|&byte| byte == 0)), "seed {seed}");
                assert!(found.len() == elements.len() && lost.len() <= 254 * destroyed.len(), "seed {seed}");
                continue;
            }
            let all: BTreeSet<_> = elements.iter().collect();
            assert!(found.iter().all(|element| all.contains(element)), "seed {seed}: {name} has another element");
            if name == "list" {
                let reached = elements.iter().take_while(|element| is_rooted && is_whole(element)).count();
                assert!(found.len() >= reached && found[..] == elements[..found.len()], "seed {seed}: {name}");
                continue;
            }
            let found: BTreeSet<_> = found.iter().collect();
            let missing = elements.iter().find(|element| is_whole(element) && !found.contains(element));
            assert_eq!(missing, None, "seed {seed}: {name}, destroyed {destroyed:?}");
        }
    }
}

fn roots_of(directory: &Path) -> BTreeMap<String, u64> {
    let store = cedrat::open(directory).expect("it is whole");
    let catalogue = Catalogue::open(&store).expect("it is there");
    let listed = store.transact(|txn| catalogue.list(txn)).expect("it is not locked");
    let roots = listed.into_iter().map(|named| (named.name, named.root.get())).collect();
    store.close().expect("it is not in use");
    roots
}

/// Written pages in use, and the space map, but not the catalogue, which names the others.
fn victims(directory: &Path, pages: &[u8]) -> Vec<u64> {
    let store = cedrat::open(directory).expect("it is whole");
    let used: BTreeSet<u64> = store.pages_in_use().expect("it is whole").into_iter().map(|page| page.get()).collect();
    store.close().expect("it is not in use");
    let is_victim = |(page, number): (&[u8], u64)| {
        let is_of_catalogue = page[6..8] == [17, 0] && page[32..40] == 1_u64.to_le_bytes();
        let is_written = page.iter().any(|&byte| byte != 0);
        (is_written && !is_of_catalogue && (number == 0 || used.contains(&number))).then_some(number)
    };
    pages.chunks(4096).zip(0..).filter_map(is_victim).collect()
}

#[test]
fn random_damage_loses_nothing_of_whole_pages() {
    let folder = tempfile::tempdir().expect("a folder");
    let original = folder.path().join("store");
    let store = one_of_each(&original);
    let contents = contents_of(&store);
    store.close().expect("a checkpoint");
    let roots = roots_of(&original);
    let pages = fs::read(original.join("pages")).expect("a file");
    let (places, victims) = (Places::of(&contents, &pages), victims(&original, &pages));
    for seed in 1..=8_u64 {
        let (damaged, saved) =
            (folder.path().join(format!("damaged{seed}")), folder.path().join(format!("saved{seed}")));
        copy(&original, &damaged);
        let mut random = seed;
        let mut destroyed = BTreeSet::new();
        for _ in 0..seed % 10 + 1 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            destroyed.insert(victims[(random >> 33) as usize % victims.len()]);
        }
        destroyed.iter().for_each(|&page| destroy(&damaged, page));
        if seed % 4 == 0 {
            fs::remove_file(damaged.join("control")).expect("it is there");
        }
        if seed % 5 == 0 {
            fs::remove_dir_all(damaged.join("log")).expect("it is there");
        }
        let report = salvaged(&damaged, &saved);
        assert!(report["losses"].as_u64() > Some(0), "seed {seed}: {report}");
        for &page in &destroyed {
            let is_named = |loss: &Value| loss["offset"] == page * 4096;
            let is_listed = report["lost"].as_array().expect("a list").iter().any(is_named);
            assert!(is_listed, "seed {seed}: page {page} is not reported: {report}");
        }
        places.compare(&contents_at(&saved), &destroyed, &roots, seed);
        fs::remove_dir_all(&damaged).expect("it is there");
    }
}

#[test]
fn lost_control_and_log_lose_no_pages() {
    let folder = tempfile::tempdir().expect("a folder");
    let original = folder.path().join("store");
    let store = one_of_each(&original);
    let contents = contents_of(&store);
    store.close().expect("a checkpoint");
    for (name, lost) in
        [("a", &["control"][..]), ("b", &["log"]), ("c", &["control", "log", "written", "double-write"])]
    {
        let damaged = folder.path().join(format!("damaged-{name}"));
        copy(&original, &damaged);
        for file in lost {
            let path = damaged.join(file);
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect("it is there");
        }
        let saved = folder.path().join(format!("saved-{name}"));
        let report = salvaged(&damaged, &saved);
        assert_eq!(report["is_recovered"], false, "{report}");
        assert!(report["recovery_problem"].is_string() && report["ok"] == false, "commits may be lost: {report}");
        assert_eq!(contents_at(&saved), contents, "{lost:?}");
        let saved = cedrat::open(saved).expect("it is whole");
        assert_eq!(saved.memory().heap("heap").expect("it is there").verify().expect("it is sound").bytes, 300);
    }
}

#[test]
fn lost_catalogue_gives_structures_new_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let (original, saved) = (folder.path().join("store"), folder.path().join("saved"));
    let store = one_of_each(&original);
    let contents = contents_of(&store);
    store.close().expect("a checkpoint");
    let roots = roots_of(&original);
    let pages = fs::read(original.join("pages")).expect("a file");
    let is_of_catalogue = |page: &[u8]| page[6..8] == [17, 0] && page[32..40] == 1_u64.to_le_bytes();
    let buckets = pages.chunks(4096).zip(0..).filter(|(page, _)| is_of_catalogue(page)).map(|(_, number)| number);
    buckets.chain([1]).for_each(|page| destroy(&original, page));
    let report = salvaged(&original, &saved);
    assert!(report["lost"].to_string().contains("the catalogue"), "{report}");
    let found = contents_at(&saved);
    for (name, elements) in &contents {
        assert_eq!(found.get(&format!("lost+found/{}", roots[name])), Some(elements), "{name}");
    }
    assert_eq!(found.len(), contents.len(), "the parts of a graph are no structures");
}

#[test]
fn truncated_and_foreign_files_are_survived() {
    let folder = tempfile::tempdir().expect("a folder");
    let original = folder.path().join("store");
    one_of_each(&original).close().expect("a checkpoint");
    let pages = fs::read(original.join("pages")).expect("a file");
    for (number, len) in [0, 5000, pages.len() / 2, pages.len() - 1].into_iter().enumerate() {
        let (damaged, saved) =
            (folder.path().join(format!("cut{number}")), folder.path().join(format!("saved{number}")));
        copy(&original, &damaged);
        fs::write(damaged.join("pages"), &pages[..len]).expect("room");
        salvaged(&damaged, &saved);
        contents_at(&saved);
    }
    let garbage = folder.path().join("garbage");
    copy(&original, &garbage);
    for (path, bytes) in files(&garbage) {
        let random = |at: usize| (at.wrapping_mul(2_654_435_761) >> 13) as u8;
        fs::write(path, (0..bytes.len()).map(random).collect::<Vec<u8>>()).expect("room");
    }
    let report = salvaged(&garbage, &folder.path().join("nothing"));
    assert_eq!((report["ok"].as_bool(), report["structures"].as_array().map(Vec::len)), (Some(false), Some(0)));
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).expect("room");
    let refused = cedrat(&["salvage", text(&empty), text(&folder.path().join("empty saved"))]);
    assert!(
        refused.status.code() == Some(1) && errors(&refused).contains("neither pages nor heaps"),
        "{}",
        errors(&refused)
    );
    assert!(!folder.path().join("empty saved").exists());
}

#[test]
fn damaged_chunk_leaves_other_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let (damaged, saved) = (folder.path().join("store"), folder.path().join("saved"));
    let store = one_of_each(&damaged);
    let words = store.memory().create_heap("words", &HeapOptions::raw(3 << 20)).expect("there is room");
    for chunk in 0..3 {
        words.atomically(|tx| tx.write(&words, (chunk << 20) + 8, chunk + 1)).expect("a commit");
    }
    drop(words);
    store.close().expect("a checkpoint");
    let store = cedrat::open(&damaged).expect("it is whole");
    let words = store.memory().heap("words").expect("it is there");
    let newest = |txn: &mut Txn| {
        HashTable::<u64, String>::open(txn, "table")?.insert(txn, &7, &"newest".into())?;
        txn.heap(|tx| tx.write(&words, 8, 99))
    };
    store.transact(newest).expect("there is room");
    let contents = contents_of(&store);
    drop((words, store)); // without a checkpoint
    let file = ["words.0", "words.1"].map(|name| damaged.join("heaps").join(name));
    for file in file {
        let mut bytes = fs::read(&file).expect("a file");
        let at = (1 << 20) + 4096 + 4096 + 8; // in the second chunk
        if bytes.len() > at {
            bytes[at] ^= 1;
            fs::write(file, bytes).expect("room");
        }
    }
    let report = salvaged(&damaged, &saved);
    assert!(report["lost"][0]["what"].as_str().expect("a loss").contains("checksum"), "{report}");
    assert_eq!(report["is_recovered"], true, "pages do not need heaps: {report}");
    assert_eq!(contents_at(&saved), contents);
    let saved = cedrat::open(saved).expect("it is whole");
    let words = saved.memory().heap("words").expect("it is there");
    let read = |chunk: u64| words.atomically(|tx| tx.read(&words, (chunk << 20) + 8)).expect("a word");
    assert_eq!([0, 1, 2].map(read), [1, 0, 3], "the log is not replayed to heaps");
}

#[test]
fn graph_loses_only_damaged_objects() {
    let folder = tempfile::tempdir().expect("a folder");
    let original = folder.path().join("store");
    with_graph(&original);
    fs::remove_file(original.join("control")).expect("it is there");
    let whole = folder.path().join("whole");
    salvaged(&original, &whole);
    let store = cedrat::open(whole).expect("it is whole");
    let graph = Graph::open(&store, "graph", cedrat::graph::Options::default()).expect("it is there");
    graph.check().expect("it can be walked").expect_sound();
    let first = graph.root("first").expect("it is there").and_then(Reference::identity).expect("an object");
    let long = graph.object(first).expect("it is there").references[0].identity().expect("an object");
    assert_eq!(graph.object(long).expect("it is there").data.len(), 100_000);

    // A leaf of the long object: a page full of threes.
    let pages = fs::read(original.join("pages")).expect("a file");
    let is_leaf = |page: &[u8]| page.iter().filter(|&&byte| byte == 3).count() > 3000;
    let leaf = pages.chunks(4096).zip(0..).filter(|(page, _)| is_leaf(page)).map(|(_, number)| number).nth(5);
    destroy(&original, leaf.expect("it has many"));
    let saved = folder.path().join("saved");
    let report = salvaged(&original, &saved);
    assert_eq!(report["lost_references"], 1, "{report}");
    let store = cedrat::open(saved).expect("it is whole");
    let graph = Graph::open(&store, "graph", cedrat::graph::Options::default()).expect("it is there");
    graph.check().expect("it can be walked").expect_sound();
    let first = graph.root("first").expect("it is there").and_then(Reference::identity).expect("an object");
    let object = graph.object(first).expect("it is there");
    assert_eq!((&object.data[..5], object.references[0]), (&b"first"[..], Reference::NULL));
    assert_eq!(graph.class(2).as_deref(), Some(&b"class 2"[..]));
}

#[test]
fn open_store_and_full_target_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = one_of_each(&folder.path().join("store"));
    let busy = cedrat(&["salvage", text(&folder.path().join("store")), text(&folder.path().join("saved"))]);
    assert!(busy.status.code() == Some(1) && errors(&busy).contains("is open elsewhere"), "{}", errors(&busy));
    assert!(!folder.path().join("saved").exists());
    store.close().expect("a checkpoint");
    let full = cedrat(&["salvage", text(&folder.path().join("store")), text(folder.path())]);
    assert!(full.status.code() == Some(1) && errors(&full).contains("is not empty"), "{}", errors(&full));
    let shown = cedrat(&["salvage", text(&folder.path().join("store")), text(&folder.path().join("saved"))]);
    assert_eq!(shown.status.code(), Some(0), "{}", errors(&shown));
}
