//! Concurrent commits, branches, reads, evictions and collections, compared with a model. Run again with
//! `RUSTFLAGS="--cfg cedrat_shuttle"`, which chooses the interleavings.

use cedrat_objects::graph::{Changes, Graph, GraphError, Identity, Mode, Reference, Stage};
use cedrat_sync::{explore, thread};
use cedrat_txn::{Commit, Error, Vote};

use crate::graph_common::{graph_of_threads, just};

const SCHEDULES: usize = 60;

/// Adds objects of which all bytes are `value`, and gives each a name.
fn add_named(graph: &Graph, names: &[&str], len: usize, value: u8) -> Vec<Identity> {
    let mut changes = Changes::new();
    for name in names {
        let new = changes.add(1, &vec![value; len], &[]);
        changes.set_root(name, new);
    }
    graph.commit(&changes, Mode::Async).unwrap().identities
}

/// Returns the value that all bytes of the data have.
#[track_caller]
fn value(data: &[u8]) -> u8 {
    assert!(data.iter().all(|&byte| byte == data[0]), "E21.3: half of a transaction was read");
    data[0]
}

fn collect(graph: &Graph, budget: usize) {
    let mut collection = graph.collect([]).unwrap();
    while collection.step(budget).unwrap() != Stage::Done {
        if collection.stage() == Stage::Marked {
            collection.seal([]).unwrap();
        }
    }
}

/// Writes all changes to pages, and truncates the log.
fn flush(graph: &Graph) {
    graph.flush().unwrap();
    graph.store().checkpoint().unwrap();
}

/// Returns the target of a name.
fn named(graph: &Graph, name: &str) -> Option<Identity> {
    graph.root(name).unwrap().and_then(Reference::identity)
}

/// E21.1, E21.5, E21.6: each of two threads writes its half of the same objects, and has a list of its own: it adds to the
/// front, and cuts off all but two elements. Collections remove the cut elements, and nothing else; the cache is hardly
/// larger than one commit.
fn two_commit_beside_collections(len: usize, cache_bytes: u64, seed: u64) {
    explore(seed, SCHEDULES, move || {
        let graph = graph_of_threads(cache_bytes);
        let shared = add_named(&graph, &["first", "second"], 2 * len, 0);
        let committers: Vec<_> = (0..2_usize)
            .map(|own| {
                let (graph, shared) = (graph.clone(), shared.clone());
                thread::spawn(move || {
                    let name = format!("list of {own}");
                    for turn in 1..=TURNS {
                        let mut changes = Changes::new();
                        let order = if own == 0 { [0, 1] } else { [1, 0] };
                        for index in order {
                            changes.patch(shared[index], (8 + own * len) as u32, &vec![turn; len]);
                        }
                        let newest = named(&graph, &name);
                        let next = newest.map_or(Reference::NULL, Reference::from);
                        let new = changes.add(1, &vec![turn; len], &[next]);
                        if let Some(newest) = newest {
                            changes.patch_reference(newest, (8 + len) as u32, Reference::NULL);
                        }
                        changes.set_root(&name, new);
                        graph.commit(&changes, Mode::Async).unwrap();
                    }
                })
            })
            .collect();
        let collector = {
            let graph = graph.clone();
            thread::spawn(move || (0..2).for_each(|_| collect(&graph, 2)))
        };
        flush(&graph);
        committers.into_iter().for_each(|thread| thread.join().unwrap());
        collector.join().unwrap();
        for id in shared {
            let data = graph.object(id).unwrap().data;
            assert_eq!([value(&data[..len]), value(&data[len..])], [TURNS; 2]);
        }
        for own in 0..2 {
            let newest = graph.object(named(&graph, &format!("list of {own}")).unwrap()).unwrap();
            let older = graph.object(newest.references[0].identity().unwrap()).unwrap();
            assert_eq!([value(&newest.data), value(&older.data)], [TURNS, TURNS - 1]);
            assert_eq!(older.references, [Reference::NULL]);
        }
        collect(&graph, 100);
        let checked = graph.check().unwrap();
        checked.expect_sound();
        assert_eq!(checked.elements, 6, "two objects, and two of each list");
    });
}

#[test]
fn two_commit_small_objects_beside_collections() {
    two_commit_beside_collections(16, 3000, 42);
}

#[test]
fn two_commit_objects_in_pieces_beside_collections() {
    two_commit_beside_collections(4800, 60_000, 43);
}

/// Returns whether a branch in doubt blocked the call.
fn is_in_doubt(error: &Error) -> bool {
    matches!(GraphError::cause(error), Error::InDoubt { .. })
}

const TURNS: u8 = 4;
/// Value of the last branch that commits. Branches count from 1; the even ones roll back.
const LAST_COMMITTED: u8 = 3;
/// First value that commits other than branches write.
const OTHERS: u8 = 100;

/// Each branch writes to an object, and gives a name to a new one.
fn branches(graph: &Graph, same: Identity, len: usize) {
    for turn in 1..=TURNS {
        let mut changes = Changes::new();
        changes.patch(same, 8, &vec![turn; len]);
        let new = changes.add(1, &vec![turn; len], &[same.into()]);
        changes.set_root("newest", new);
        let Vote::Prepared(prepared) = graph.prepare(&changes, &[turn]).unwrap().vote else {
            panic!("it changes something");
        };
        if turn % 2 == 0 {
            prepared.rollback().unwrap();
        } else {
            just(prepared.commit(Commit::Async).unwrap());
        }
    }
}

/// Commits to both objects, or to `other` alone while a branch has `same`; returns the value that was last written to both.
fn commits(graph: &Graph, same: Identity, other: Identity, len: usize) -> Option<u8> {
    let mut last = None;
    for turn in OTHERS..OTHERS + TURNS {
        let mut both = Changes::new();
        both.patch(other, 8, &vec![turn; len]).patch(same, 8, &vec![turn; len]);
        match graph.commit(&both, Mode::Async) {
            Ok(_) => last = Some(turn),
            Err(error) => {
                assert!(is_in_doubt(&error), "{error}");
                let mut one = Changes::new();
                one.patch(other, 8, &vec![turn; len]);
                graph.commit(&one, Mode::Async).unwrap();
            }
        }
    }
    last
}

/// Asserts that reads show committed values only.
fn reads(graph: &Graph, same: Identity) {
    for _ in 0..20 {
        let read = value(&graph.object(same).unwrap().data);
        assert!(read >= OTHERS || read == 0 || read % 2 == 1, "E21.8: {read} was never committed");
        // It may have been replaced, and removed by a collection.
        if let Some(newest) = named(graph, "newest")
            && let Ok(object) = graph.object(newest)
        {
            assert_eq!(value(&object.data) % 2, 1, "E21.8");
        }
    }
}

/// E21.8: branches of one thread commit and roll back by turns; another thread commits changes of another object, and of the
/// same one unless a branch has it; others read, flush and collect. No reader sees uncommitted changes of a branch, or a part
/// of a commit.
fn branches_beside_commits_reads_and_a_collection(len: usize, cache_bytes: u64, seed: u64) {
    explore(seed, SCHEDULES, move || {
        let graph = graph_of_threads(cache_bytes);
        let ids = add_named(&graph, &["same", "other"], len, 0);
        let (same, other) = (ids[0], ids[1]);
        let handles = [(); 4].map(|()| graph.clone());
        let [of_brancher, of_committer, of_reader, of_collector] = handles;
        let brancher = thread::spawn(move || branches(&of_brancher, same, len));
        let committer = thread::spawn(move || commits(&of_committer, same, other, len));
        let reader = thread::spawn(move || reads(&of_reader, same));
        let collector = thread::spawn(move || collect(&of_collector, 2));
        flush(&graph);
        brancher.join().unwrap();
        let last = committer.join().unwrap();
        reader.join().unwrap();
        collector.join().unwrap();
        let read = value(&graph.object(same).unwrap().data);
        assert!(read == LAST_COMMITTED || Some(read) == last, "{read}, and not {last:?}");
        assert_eq!(value(&graph.object(other).unwrap().data), OTHERS + TURNS - 1);
        let newest = graph.object(named(&graph, "newest").unwrap()).unwrap();
        assert_eq!(value(&newest.data), LAST_COMMITTED);
        collect(&graph, 100);
        let checked = graph.check().unwrap();
        checked.expect_sound();
        assert_eq!(checked.elements, 3, "the same one, the other one, and the newest");
    });
}

/// E21.9: the outcome of a branch arrives while a collection begins. The targets of roots stay, whether those of the branch
/// or those before it.
#[test]
fn collection_beside_ending_branch_keeps_reachable() {
    for (commits, seed) in [(true, 46), (false, 47)] {
        explore(seed, 4 * SCHEDULES, move || {
            let graph = graph_of_threads(1 << 20);
            add_named(&graph, &["name"], 16, 1);
            let mut changes = Changes::new();
            let new = changes.add(1, &[2; 16], &[]);
            changes.set_root("name", new);
            let Vote::Prepared(prepared) = graph.prepare(&changes, b"branch").unwrap().vote else {
                panic!("it changes something");
            };
            let ender = thread::spawn(move || match commits {
                true => just(prepared.commit(Commit::Async).unwrap()),
                false => prepared.rollback().unwrap(),
            });
            collect(&graph, 10);
            ender.join().unwrap();
            let object = graph.object(named(&graph, "name").unwrap()).expect("E21.9: it was collected");
            assert_eq!(value(&object.data), if commits { 2 } else { 1 });
            graph.check().unwrap().expect_sound();
        });
    }
}

/// E19.11: a page is emptied, and filled again at other places, while a reader holds identities of its earlier objects, and
/// another thread fills it too.
#[test]
fn refilled_page_shows_no_other_object() {
    const LEN: usize = 3704;
    explore(48, SCHEDULES, || {
        let graph = graph_of_threads(60_000);
        // They take the last places of the page.
        let mut old: Vec<Identity> = (0..18).map(|value| add_named(&graph, &["name"], LEN, value)[0]).collect();
        collect(&graph, 100);
        old.extend((18..30).map(|value| add_named(&graph, &["name"], LEN, value)[0]));
        let committers: Vec<_> = (0..2_u8)
            .map(|own| {
                let graph = graph.clone();
                let names = [["name"], ["other"]];
                thread::spawn(move || {
                    (0..4)
                        .map(|turn| add_named(&graph, &names[usize::from(own)], LEN, 30 + 4 * own + turn)[0])
                        .collect()
                })
            })
            .collect();
        let reader = {
            let (graph, old) = (graph.clone(), old.clone());
            thread::spawn(move || {
                for (value, &id) in old.iter().enumerate() {
                    if let Ok(object) = graph.object(id) {
                        assert_eq!(usize::from(self::value(&object.data)), value, "E19.11: a stranger");
                    }
                }
            })
        };
        let collector = {
            let graph = graph.clone();
            thread::spawn(move || (0..2).for_each(|_| collect(&graph, 2)))
        };
        flush(&graph);
        let new: Vec<Vec<Identity>> = committers.into_iter().map(|thread| thread.join().unwrap()).collect();
        reader.join().unwrap();
        collector.join().unwrap();
        let mut all: Vec<Identity> = old.into_iter().chain(new.into_iter().flatten()).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "E19.11");
        assert_eq!(value(&graph.object(named(&graph, "name").unwrap()).unwrap().data), 33);
        assert_eq!(value(&graph.object(named(&graph, "other").unwrap()).unwrap().data), 37);
        collect(&graph, 100);
        graph.check().unwrap().expect_sound();
    });
}

#[test]
fn branches_of_small_objects_beside_all_else() {
    branches_beside_commits_reads_and_a_collection(16, 3000, 44);
}

#[test]
fn branches_of_long_objects_run_concurrently() {
    branches_beside_commits_reads_and_a_collection(4800, 60_000, 45);
}
