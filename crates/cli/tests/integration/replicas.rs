//! `cedrat follow` and `cedrat promote`.

use std::sync::Arc;

use cedrat::prelude::*;
use cedrat::txn::ReplicaOptions;
use cedrat_replication::ReplicaListener;

use crate::common::*;

#[test]
fn followed_store_is_promoted() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let store = cedrat::open(path("store")).unwrap();
    let table = store.transact(|txn| HashTable::<String, u64>::create(txn, "table")).unwrap();
    let (shop, copy, new) = (path("store"), path("copy"), path("new"));
    let (shop, copy, new) = (text(&shop), text(&copy), text(&new));
    let follow = ["follow", shop, copy, "--name", "one", "--once", "--json"];
    let refused = cedrat(&follow);
    assert_eq!(refused.status.code(), Some(1));
    assert!(errors(&refused).contains("no process serves replicas"), "{}", errors(&refused));
    let ended = Arc::new(|_: &str, _: &Error| {});
    let server = store.replica_server(ReplicaOptions::default());
    let listener = ReplicaListener::bind_local(&path("store"), server, ended).unwrap();
    for value in 1..=2 {
        store.transact(|txn| table.insert(txn, "key", &value)).unwrap();
        let followed = cedrat(&follow);
        assert!(followed.status.success(), "{}", errors(&followed));
        assert_eq!(json(&followed)["lsn"], store.log().durable_lsn().get());
    }
    drop(listener);
    store.close().unwrap();
    let promoted = cedrat(&["promote", copy, new, "--json"]);
    assert!(promoted.status.success(), "{}", errors(&promoted));
    let verified = cedrat(&["verify", new]);
    assert!(verified.status.success(), "{}", errors(&verified));
    let store = cedrat::open(path("new")).unwrap();
    let value = store.transact(|txn| HashTable::<String, u64>::open(txn, "table")?.get(txn, "key")).unwrap();
    assert_eq!(value, Some(2));
    let refused = cedrat(&follow);
    assert!(errors(&refused).contains("was promoted"), "{}", errors(&refused));
    let strange = cedrat(&["promote", shop, new]);
    assert!(errors(&strange).contains("no complete replica"), "{}", errors(&strange));
}

/// Each would be refused again: the command ends with the reason, also without `--once`.
#[test]
fn permanent_refusals_end_follow() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let store = cedrat::open(path("store")).unwrap();
    store.consumer("taken", Default::default()).unwrap();
    let ended = Arc::new(|_: &str, _: &Error| {});
    let server = store.replica_server(ReplicaOptions::default());
    let _listener = ReplicaListener::bind_local(&path("store"), server, ended).unwrap();
    let (shop, copy, other) = (path("store"), path("copy"), path("other"));
    let refused = cedrat(&["follow", text(&shop), text(&copy), "--name", "taken"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(errors(&refused).contains("choose another one"), "{}", errors(&refused));
    let missing = cedrat(&["follow", text(&path("missing")), text(&other), "--name", "one"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(errors(&missing).contains("this is no folder"), "{}", errors(&missing));
}
