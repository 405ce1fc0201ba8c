//! Prepared changes: invisible, locked and kept until their outcome, in every opening (E21.8, E21.9). Crash states:
//! `graph_crash_graph.rs`.
#![cfg(not(cedrat_shuttle))] // threads: graph_threads.rs

use std::sync::Barrier;

use cedrat_objects::graph::{Changes, Collection, Graph, Identity, Mode, Options, Reference, Stage};
use cedrat_pages::PageId;
use cedrat_sync::{Arc, thread};
use cedrat_txn::locks::PageLocks;
use cedrat_txn::object_cache::InDoubtRecords;
use cedrat_txn::{BranchError, Commit, Error, NoLocks, Vote};

use crate::graph_common::{NAME, Place, is_absent, pattern, place, place_of, place_with};

const BRANCH: &[u8] = b"global-17/branch-1";
const BRANCH_IN_HEX: &str = "676c6f62616c2d31372f6272616e63682d31";
const LONG: usize = 20_000;

/// Objects that a branch changes: one short, one in pieces, one that grows into pieces.
struct Web {
    place: Place,
    short: Identity,
    long: Identity,
    grows: Identity,
    /// Object that only the branch refers to.
    lonely: Identity,
    /// Objects that the branch makes: a short one, and one in pieces.
    made: Vec<Identity>,
}

fn prepared() -> Web {
    let place = place();
    let mut changes = Changes::new();
    let short = changes.add(1, b"as it was", &[Reference::NULL]);
    let long = changes.add(1, &pattern(LONG, 1), &[short]);
    let grows = changes.add(1, b"small", &[long]);
    changes.add(1, b"lonely", &[]);
    changes.set_root("changed", short).set_root("removed", long).set_root("other", grows);
    let ids = place.commit(&changes);
    let [short, long, grows, lonely] = ids[..] else { panic!("four were added") };

    let mut changes = Changes::new();
    let second = changes.next(1);
    let first = changes.add(1, b"first", &[second, short.into()]);
    changes.add(1, &pattern(LONG, 2), &[first]);
    changes.patch(short, 8, b"is now").patch_reference(short, 24, lonely);
    changes.patch(long, 8, &pattern(LONG, 3));
    changes.patch_reference(grows, 16 + 8 * 1000, second);
    changes.set_root("changed", second).remove_root("removed").set_root("added", first);
    let branch = place.graph.prepare(&changes, BRANCH).unwrap();
    assert!(matches!(branch.vote, Vote::Prepared(_)));
    Web { place, short, long, grows, lonely, made: branch.identities }
}

fn names_the_branch(error: &Error) -> bool {
    matches!(error, Error::InDoubt { id } if id == BRANCH_IN_HEX) && error.to_string().contains(BRANCH_IN_HEX)
}

impl Web {
    /// The same web in the next opening.
    fn crashed(&self) -> Web {
        Web { place: self.place.crashed(), made: self.made.clone(), ..*self }
    }

    fn graph(&self) -> &Graph {
        &self.place.graph
    }

    fn roots(&self) -> Vec<String> {
        self.graph().roots().unwrap().into_iter().map(|(name, _)| name).collect()
    }

    #[track_caller]
    fn assert_unchanged(&self) {
        let graph = self.graph();
        assert_eq!(&graph.object(self.short).unwrap().data[..9], b"as it was");
        assert_eq!(graph.object(self.short).unwrap().references, [Reference::NULL]);
        assert_eq!(graph.object(self.long).unwrap().data, pattern(LONG, 1));
        assert_eq!(graph.object(self.grows).unwrap().references, [self.long.into()]);
        for made in &self.made {
            assert!(is_absent(&graph.read(*made).unwrap_err()));
        }
        assert_eq!(self.roots(), ["changed", "other", "removed"]);
        assert_eq!(graph.root("changed").unwrap(), Some(self.short.into()));
        assert_eq!(graph.root("removed").unwrap(), Some(self.long.into()));
        assert_eq!(graph.root("added").unwrap(), None);
        assert_eq!(graph.root("other").unwrap(), Some(self.grows.into()));
    }

    #[track_caller]
    fn assert_prepared(&self) {
        let graph = self.graph();
        assert_eq!(&graph.object(self.short).unwrap().data[..9], b"is nowwas");
        assert_eq!(graph.object(self.short).unwrap().references, [self.lonely.into()]);
        assert_eq!(graph.object(self.lonely).unwrap().data, b"lonely\0\0");
        assert_eq!(graph.object(self.long).unwrap().data, pattern(LONG, 3));
        assert_eq!(graph.object(self.grows).unwrap().references[1000], self.made[1].into());
        assert_eq!(graph.object(self.made[1]).unwrap().data, pattern(LONG, 2));
        assert_eq!(graph.object(self.made[0]).unwrap().references, [self.made[1].into(), self.short.into()]);
        assert_eq!(self.roots(), ["added", "changed", "other"]);
        self.place.check();
    }

    /// E21.8.
    #[track_caller]
    fn assert_in_doubt(&self) {
        self.assert_unchanged();
        let (objects, roots) = self.graph().changed_by_branch(BRANCH).unwrap();
        assert_eq!(objects, [self.short, self.long, self.grows]);
        assert_eq!(roots, ["added", "changed", "removed"]);
        assert_eq!(self.graph().changed_by_branch(b"another"), None);
        let refused = |changes: &Changes| {
            let error = self.graph().commit(changes, Mode::Sync).expect_err("an object that is in doubt was changed");
            assert!(names_the_branch(&error), "{error}");
        };
        for object in [self.short, self.long, self.grows, self.made[0]] {
            refused(Changes::new().patch(object, 8, b"x"));
        }
        for root in ["changed", "removed", "added"] {
            refused(Changes::new().set_root(root, self.grows));
        }
        // E21.4: it would have no target if the branch rolled back.
        let to_new = self.graph().commit(Changes::new().set_root("of others", self.made[0]), Mode::Sync);
        assert!(is_absent(&to_new.unwrap_err()));
        assert!(names_the_branch(&self.graph().check().unwrap_err()));
        let mut others = Changes::new();
        let new = others.add(1, &pattern(LONG, 4), &[]);
        others.set_root("of others", new);
        let added = self.place.commit(&others);
        assert_eq!(self.graph().object(added[0]).unwrap().data, pattern(LONG, 4));
        self.place.commit(Changes::new().remove_root("of others"));
        let in_doubt = self.graph().store().in_doubt().unwrap();
        assert_eq!(in_doubt.iter().map(|branch| &branch.id[..]).collect::<Vec<_>>(), [BRANCH]);
    }
}

fn collect(graph: &Graph) {
    finish(&mut graph.collect([]).unwrap());
}

fn finish(collection: &mut Collection) {
    let step = |collection: &mut Collection| match collection.stage() {
        Stage::Marked => collection.seal([]).unwrap(),
        _ => collection.step(1000).unwrap(),
    };
    while step(collection) != Stage::Done {}
}

/// Returns the web in each of the openings in which a branch can be ended.
fn openings() -> [Web; 3] {
    let here = prepared();
    let (next, over_next) = (here.crashed(), here.crashed().crashed());
    [here, next, over_next]
}

/// E21.8: in the opening in which it prepared, and in later ones.
#[test]
fn in_doubt_branch_is_invisible_and_locked() {
    for web in openings() {
        web.assert_in_doubt();
    }
}

#[test]
fn committed_branch_is_visible_at_once() {
    for web in openings() {
        web.graph().store().prepared(BRANCH).unwrap().commit(Commit::Sync).unwrap();
        web.assert_prepared();
        web.crashed().assert_prepared();
        web.place.commit(Changes::new().patch(web.made[0], 8, b"other"));
        assert_eq!(web.place.object(web.made[0]).data, b"other\0\0\0");
    }
}

#[test]
fn rolled_back_branch_leaves_no_changes() {
    for web in openings() {
        web.graph().store().prepared(BRANCH).unwrap().rollback().unwrap();
        for web in [&web, &web.crashed()] {
            web.assert_unchanged();
            web.place.check();
            web.place.commit(Changes::new().patch(web.short, 8, b"other").set_root("added", web.short));
            assert_eq!(&web.place.object(web.short).data[..5], b"other");
        }
    }
}

/// E21.8: also where the keys of each structure share one lock, and in later openings.
#[test]
fn in_doubt_branch_does_not_block_others() {
    let options = || cedrat_txn::Options {
        locks: Arc::new(PageLocks::new(cedrat_txn::PageLockOptions {
            key_stripes: 1,
            ..cedrat_txn::PageLockOptions::default()
        })),
        ..cedrat_txn::Options::simulated()
    };
    let place = place_with(options());
    let ids: Vec<Identity> = (0..50).map(|number: u8| place.add(&[number; 8], &[])).collect();
    let mut changes = Changes::new();
    changes.patch(ids[0], 8, b"doubtful").add(1, b"made", &[]);
    drop(place.graph.prepare(&changes, BRANCH).unwrap());
    for place in [&place, &place.crashed_with(options())] {
        for &id in &ids[1..] {
            place.commit(Changes::new().patch(id, 8, b"stranger"));
            assert_eq!(place.object(id).data, b"stranger");
            place.add(b"another", &[]);
        }
        let refused = place.graph.commit(Changes::new().patch(ids[0], 8, b"stranger"), Mode::Sync);
        assert!(names_the_branch(&refused.unwrap_err()));
    }
}

/// E21.11: a branch of an earlier opening has locked its objects only in the store, and its changes are made at its end.
#[test]
fn branch_keeps_locks_beside_program_locks() {
    let options = Options { program_locks: true, ..Options::default() };
    for crashes in [false, true] {
        let place = place_of(cedrat_txn::Options::simulated(), options);
        let [changed, other] = [place.add(b"as it is", &[]), place.add(b"as it is", &[])];
        drop(place.graph.prepare(Changes::new().patch(changed, 8, b"doubtful"), BRANCH).unwrap());
        let place = if crashes {
            let (disk, store) = place.crashed_store(cedrat_txn::Options::simulated());
            Place { disk, graph: Graph::open(&store, NAME, options).unwrap() }
        } else {
            place
        };
        let patch = |id| place.graph.commit(Changes::new().patch(id, 8, b"stranger"), Mode::Sync);
        patch(other).unwrap();
        assert!(names_the_branch(&patch(changed).unwrap_err()));
        assert_eq!(place.object(changed).data, b"as it is");
        place.graph.store().prepared(BRANCH).unwrap().commit(Commit::Sync).map(drop).unwrap();
        assert_eq!(place.object(changed).data, b"doubtful");
        patch(changed).unwrap();
        for place in [&place, &place.crashed()] {
            assert_eq!(
                (&place.object(changed).data[..], &place.object(other).data[..]),
                (&b"stranger"[..], &b"stranger"[..])
            );
            place.check();
        }
    }
}

/// E21.9: what the branch has made, what it refers to, and what it changes although nothing else reaches that any more.
#[test]
fn collection_keeps_objects_of_branch() {
    for web in openings() {
        web.place.commit(Changes::new().set_root("other", web.short));
        collect(web.graph());
        web.assert_in_doubt_after_collection();
        let next = web.crashed();
        collect(next.graph());
        for web in [web, next] {
            web.graph().store().prepared(BRANCH).unwrap().commit(Commit::Sync).unwrap();
            collect(web.graph());
            let graph = web.graph();
            assert_eq!(graph.object(web.lonely).unwrap().data, b"lonely\0\0");
            assert_eq!(graph.object(web.made[1]).unwrap().data, pattern(LONG, 2));
            assert_eq!(&graph.object(web.short).unwrap().data[..9], b"is nowwas");
            web.place.check();
        }
    }
}

impl Web {
    fn assert_in_doubt_after_collection(&self) {
        assert_eq!(&self.graph().object(self.short).unwrap().data[..9], b"as it was");
        assert!(is_absent(&self.graph().read(self.made[0]).unwrap_err()));
    }
}

/// A garbage collection that had begun when the branch prepared, and continues.
#[test]
fn branch_can_prepare_during_mark_phase() {
    let place = place();
    let held = place.add(b"held", &[]);
    let lonely = place.add(b"lonely", &[]);
    let mut changes = Changes::new();
    changes.set_root("held", held);
    place.commit(&changes);
    let mut collection = place.graph.collect([lonely]).unwrap();
    let mut changes = Changes::new();
    let new = changes.add(1, b"new", &[lonely.into()]);
    changes.set_root("held", new);
    let made = place.graph.prepare(&changes, BRANCH).unwrap().identities[0];
    loop {
        match collection.stage() {
            Stage::Marked => drop(collection.seal([]).unwrap()),
            Stage::Done => break,
            _ => drop(collection.step(1).unwrap()),
        }
    }
    drop(collection);
    place.graph.store().prepared(BRANCH).unwrap().commit(Commit::Sync).unwrap();
    assert_eq!(place.object(made).references, [lonely.into()]);
    assert_eq!(place.object(lonely).data, b"lonely\0\0");
    place.check();
}

/// E21.9: if the branch rolls back, a root leads to its previous target again. A read of the root without locks shows the
/// branch's value.
#[test]
fn replaced_root_target_stays_without_locks() {
    let options = || cedrat_txn::Options { locks: Arc::new(NoLocks), ..cedrat_txn::Options::simulated() };
    let place = place_with(options());
    let before = place.add(b"before", &[]);
    place.commit(Changes::new().set_root("held", before));
    let mut changes = Changes::new();
    let new = changes.add(1, b"new", &[]);
    changes.set_root("held", new);
    drop(place.graph.prepare(&changes, BRANCH).unwrap());
    let next = place.crashed_with(options());
    for place in [place, next] {
        collect(&place.graph);
        place.graph.store().prepared(BRANCH).unwrap().rollback().unwrap();
        assert_eq!(place.object(before).data, b"before\0\0");
        assert_eq!(place.graph.root("held").unwrap(), Some(before.into()));
        place.check();
    }
}

/// E21.9: a branch of an earlier opening whose outcome is certain, and whose changes are not all in their pages. It moves the
/// only reference to an object from where a collection has not scanned yet to where it has.
#[test]
fn graph_can_open_while_branch_ends() {
    const REFERENCE: u32 = 8 + 2400;
    let place = place();
    let whole_page = [7; REFERENCE as usize - 8];
    let late = place.add(&whole_page, &[Reference::NULL]);
    let to = place.add(&whole_page, &[Reference::NULL]);
    let moved = place.add(&whole_page, &[]);
    let from = place.add(&whole_page, &[moved.into()]);
    place.commit(Changes::new().set_root("a", from).set_root("b", to));
    let mut changes = Changes::new();
    // In the order of their places: the last two requests wait for the first.
    changes.patch(late, 8, b"changed").patch_reference(to, REFERENCE, moved);
    changes.patch_reference(from, REFERENCE, Reference::NULL);
    drop(place.graph.prepare(&changes, BRANCH).unwrap());
    let (disk, store) = place.crashed_store(cedrat_txn::Options::simulated());
    let branch = store.in_doubt().unwrap()[0].txn;
    let (is_held, goes_on) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            let page = store.read(PageId::new(late.get() >> 16)).unwrap();
            is_held.wait();
            goes_on.wait();
            drop(page);
        });
        is_held.wait();
        scope.spawn(|| store.prepared(BRANCH).unwrap().commit(Commit::Sync).unwrap());
        while !store.in_doubt().unwrap().is_empty() || store.late_commits().is_some() {
            thread::yield_now();
        }
        assert!(store.is_prepared(branch));
        let graph = Graph::open(&store, NAME, Options::default()).unwrap();
        let mut collection = graph.collect([]).unwrap();
        collection.step(1).unwrap();
        goes_on.wait();
        while store.is_prepared(branch) {
            thread::yield_now();
        }
        finish(&mut collection);
    });
    let place = Place { disk, graph: Graph::open(&store, NAME, Options::default()).unwrap() };
    assert_eq!(place.object(to).references, [moved.into()]);
    assert_eq!(place.object(moved).data, whole_page);
    place.check();
}

/// E21.9: roots are read, and branches are listed, one after the other; a branch that ends in between is in one of the two.
#[test]
fn branch_can_end_while_gc_begins() {
    let place = place();
    let held = place.add(b"held", &[]);
    place.commit(Changes::new().set_root("held", held));
    let mut changes = Changes::new();
    let leaf = changes.next(1);
    let new = changes.add(1, b"new", &[leaf]);
    changes.add(1, &pattern(LONG, 5), &[]);
    changes.set_root("held", new);
    let made = place.graph.prepare(&changes, BRANCH).unwrap().identities;
    // The iterator over the objects that the program holds runs while the collection begins.
    let alive = std::iter::from_fn(|| {
        if let Ok(branch) = place.graph.store().prepared(BRANCH) {
            branch.commit(Commit::Sync).unwrap();
        }
        None
    });
    let mut collection = place.graph.collect(alive).unwrap();
    assert!(place.graph.store().in_doubt().unwrap().is_empty());
    finish(&mut collection);
    drop(collection);
    assert_eq!(place.graph.root("held").unwrap(), Some(made[0].into()));
    assert_eq!(place.object(made[0]).references, [made[1].into()]);
    assert_eq!(place.object(made[1]).data, pattern(LONG, 5));
    place.check();
}

/// E21.8: also for a transaction that has waited for others so far. If it waited while it holds the gate, a collection that
/// begins would wait for it, and all commits for that.
#[test]
fn mixed_commit_does_not_await_branch() {
    let web = prepared();
    for changes in [Changes::new().patch(web.short, 8, b"mixed"), Changes::new().set_root("changed", web.grows)] {
        let txn = web.graph().store().begin();
        assert!(txn.options().waits_for_prepared);
        let error = web.graph().commit_with(txn, changes, Mode::Sync, 0).unwrap_err();
        assert!(names_the_branch(&error), "{error}");
    }
    web.assert_in_doubt();
}

#[test]
fn branch_without_changes_votes_read_only() {
    let place = place();
    let branch = place.graph.prepare(Changes::new(), BRANCH).unwrap();
    assert!(matches!(branch.vote, Vote::ReadOnly));
    assert!(place.graph.store().in_doubt().unwrap().is_empty());
}

/// Nothing has happened, and no branch is in doubt.
#[test]
fn refused_branch_is_not_prepared() {
    let place = place();
    let id = place.add(b"there", &[]);
    let mut changes = Changes::new();
    changes.patch(id, 8, b"x").patch(id, 1 << 20, b"behind the end");
    assert!(place.graph.prepare(&changes, BRANCH).is_err());
    assert!(place.graph.prepare(Changes::new().patch(id, 8, b"x"), b"").is_err());
    assert!(place.graph.prepare(Changes::new().patch(id, 8, b"x"), &[7; 141]).is_err());
    assert!(place.graph.store().in_doubt().unwrap().is_empty());
    assert_eq!(place.object(id).data, b"there\0\0\0");
    let _in_doubt = place.graph.prepare(Changes::new().patch(id, 8, b"x"), &[7; 140]).unwrap();
    let other = place.add(b"other", &[]);
    let again = place.graph.prepare(Changes::new().patch(other, 8, b"x"), &[7; 140]);
    assert!(matches!(again, Err(Error::Branch(BranchError::Exists { .. }))));
    assert_eq!(place.graph.store().in_doubt().unwrap().len(), 1);
}

/// E21.9d: other commits define classes meanwhile, and a branch that is refused defines none.
#[test]
fn branch_defines_classes_before_its_outcome() {
    let place = place();
    let id = place.add(b"12345678", &[]);
    let make = |number, patched| {
        let mut changes = Changes::new();
        let new = changes.add(number, b"new", &[]);
        changes.define_class(number, b"of a branch").set_root("new", new).patch(patched, 8, b"x");
        changes
    };
    let absent = Identity::new(id.get() + 77).unwrap();
    assert!(is_absent(&place.graph.prepare(make(2, absent), BRANCH).unwrap_err()));
    assert_eq!((place.graph.classes_len(), place.graph.class(2)), (1, None));
    drop(place.graph.prepare(make(2, id), BRANCH).unwrap());
    let is_refused =
        |graph: &Graph| graph.prepare(make(3, id), b"another").is_err_and(|error| names_the_branch(&error));
    assert!(is_refused(&place.graph) && place.graph.class(3).is_none());
    assert_eq!(place.graph.define_class(b"of another").unwrap(), 3);
    place.add(b"durable", &[]);
    let [committed, rolled_back] = [(); 2].map(|()| place.crashed());
    for place in [&place, &committed, &rolled_back] {
        assert_eq!(
            place.graph.classes(),
            [&b"the only one"[..], b"of a branch", b"of another"].map(|class| Some(class.into()))
        );
        assert_eq!(place.graph.root("new").unwrap(), None);
    }
    let branch = |place: &Place| place.graph.store().prepared(BRANCH).unwrap();
    branch(&rolled_back).rollback().unwrap();
    branch(&committed).commit(Commit::Sync).unwrap();
    let new = committed.graph.root("new").unwrap().and_then(Reference::identity).unwrap();
    assert_eq!(committed.object(new).class, 2);
    for place in [&committed, &rolled_back] {
        assert_eq!(place.graph.classes_len(), 3);
        place.check();
    }
}
