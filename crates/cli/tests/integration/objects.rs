//! Java objects as the command shows them. Their bytes are made here from docs/formats/java-objects.md; that Java writes the same,
//! a test of java/persist-native shows.

use std::path::Path;

use cedrat::graph::{Changes, Graph, Identity, Mode, Options, Reference, Stage};
use serde_json::{Value, json};

use crate::common::{cedrat, errors, files, json, printed, text};

const STRING: u32 = 1;
const PERSON: u32 = 2;
const ACCOUNT: u32 = 3;
const LIST: u32 = 4;
const MAP: u32 = 5;
const COLOR: u32 = 6;
const POINT: u32 = 7;
const INTS: u32 = 8;
const ACCOUNTS: u32 = 9;
const SAVINGS: u32 = 10;
const TREE_MAP: u32 = 12;

fn definition(kind: u8, superclass: u32, name: &str, members: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = vec![1, kind, u8::from(kind == 5), 0];
    bytes.extend(superclass.to_le_bytes());
    bytes.extend((members.len() as u32).to_le_bytes());
    let texts = members.iter().flat_map(|(name, descriptor)| [name, descriptor]);
    for text in [&name].into_iter().chain(texts) {
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    bytes
}

fn string(text: &str) -> Vec<u8> {
    [&0_u32.to_le_bytes()[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

/// A boxed value, or a constant.
fn word(tag: u8, payload: u64) -> Reference {
    Reference::value(tag, payload).expect("it fits")
}

/// A bank, and who made it.
struct Bank {
    graph: Graph,
    /// In the order of their making.
    ids: Vec<Identity>,
}

/// Places in the list of identities.
const TREE: usize = 0;
const ADA: usize = 2;
const ACCOUNTS_OF_ADA: usize = 3;
const SAVED: usize = 4;
const PLAIN: usize = 5;
const FORGOTTEN: usize = 9;

fn bank(folder: &Path) -> Bank {
    let store = cedrat::open(folder).expect("a store");
    let graph = Graph::create(&store, "objects", Options::default()).expect("a graph");
    let object = "Ljava/lang/Object;";
    let definitions = [
        definition(5, 0, "java.lang.String", &[]),
        definition(1, 0, "bank.Person", &[("name", "Ljava/lang/String;"), ("accounts", "Ljava/util/List;")]),
        definition(1, 0, "bank.Account", &[("balance", "J"), ("owner", "Lbank/Person;")]),
        definition(5, 0, "java.util.ArrayList", &[]),
        definition(5, 0, "java.util.HashMap", &[]),
        definition(3, 0, "bank.Color", &[("RED", ""), ("GREEN", "")]),
        definition(2, 0, "bank.Point", &[("x", "I"), ("near", object)]),
        definition(4, 0, "[I", &[]),
        definition(4, 0, "[Lbank.Account;", &[]),
        definition(1, ACCOUNT, "bank.Savings", &[("closed", "Z"), ("balance", "I"), ("color", "Lbank/Color;")]),
        definition(1, 0, "bank.Person", &[("name", "Ljava/lang/String;"), ("born", "I")]),
        definition(5, 0, "java.util.TreeMap", &[]),
    ];
    for bytes in &definitions {
        graph.define_class(bytes).expect("a class");
    }
    let mut changes = Changes::new();
    let new = |index: usize| Changes::new().next(index as u64);
    let null = Reference::NULL;
    changes.add(TREE_MAP, &[], &[null, new(1), new(ADA)]);
    changes.add(STRING, &string("Ada \"the first\""), &[]);
    changes.add(PERSON, &[], &[new(1), new(ACCOUNTS_OF_ADA)]);
    changes.add(LIST, &2_u32.to_le_bytes(), &[new(SAVED), new(PLAIN), null, null]);
    let savings = [&100_i64.to_le_bytes()[..], &(-7_i32).to_le_bytes(), &[1]].concat();
    changes.add(SAVINGS, &savings, &[new(ADA), word(9, u64::from(COLOR) << 24 | 1)]);
    changes.add(ACCOUNT, &5_i64.to_le_bytes(), &[new(ADA)]);
    let ints: Vec<u8> = [3, 0, 10, 20, 30].map(u32::to_le_bytes).concat();
    changes.add(INTS, &ints, &[]);
    changes.add(POINT, &9_i32.to_le_bytes(), &[new(6)]);
    changes.add(MAP, &[], &[word(5, 3), new(7), new(7), word(10, 5)]);
    changes.add(ACCOUNTS, &[], &[new(PLAIN), new(FORGOTTEN)]);
    changes.set_root("people", new(TREE));
    changes.set_root("map", new(8));
    changes.set_root("seven", word(5, 7));
    let ids = graph.commit(&changes, Mode::Sync).expect("they fit").identities;
    Bank { graph, ids }
}

impl Bank {
    fn close(self) -> Vec<String> {
        let Bank { graph, ids } = self;
        let store = graph.store().clone();
        drop(graph);
        store.close().expect("it is not in use");
        ids.into_iter().map(shown).collect()
    }
}

fn shown(identity: Identity) -> String {
    format!("{}:{}", identity.get() >> 16, identity.get() & 0xffff)
}

#[test]
fn roots_and_classes_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let ids = bank(folder.path()).close();
    let before = files(folder.path());
    let found = json(&cedrat(&["objects", text(folder.path()), "--json"]));
    assert_eq!(
        found["roots"],
        json!([
            {"name": "map", "value": {"identity": ids[8], "class": "java.util.HashMap"}},
            {"name": "people", "value": {"identity": ids[TREE], "class": "java.util.TreeMap"}},
            {"name": "seven", "value": {"class": "java.lang.Integer", "value": 7}},
        ])
    );
    // Ten objects: eight bytes each, data to a multiple of eight, references.
    let bytes = 10 * 8 + (24 + 8 + 16 + 8 + 24 + 8) + 8 * (3 + 2 + 4 + 2 + 1 + 1 + 4 + 2);
    let total = ["objects", "bytes", "unreached_objects", "unreached_bytes"].map(|name| found[name].as_u64().unwrap());
    assert_eq!(total, [10, bytes, 1, 24]);
    assert_eq!((&found["ok"], &found["graph"]), (&json!(true), &json!("objects")));
    let classes = found["classes"].as_array().unwrap();
    assert!(classes.iter().map(|class| class["bytes"].as_u64().unwrap()).rev().is_sorted(), "{found}");
    let of = |name: &str| classes.iter().find(|class| class["class"] == name).unwrap_or_else(|| panic!("{name}"));
    assert_eq!(
        *of("[Lbank.Account;"),
        json!({"class": "[Lbank.Account;", "definition": ACCOUNTS, "is_replaced": false, "objects": 1, "bytes": 24,
            "unreached_objects": 1, "unreached_bytes": 24})
    );
    assert_eq!(of("bank.Person")["is_replaced"], true);
    let lines = printed(&cedrat(&["objects", text(folder.path())]));
    let said = [
        &format!("people → java.util.TreeMap {}", ids[TREE]),
        "seven → Integer 7",
        "bank.Person (older definition, 2)",
    ];
    said.iter().for_each(|said| assert!(lines.contains(*said), "{said}: {lines}"));
    assert_eq!(files(folder.path()), before, "looking changed a file");
}

#[test]
fn an_object_is_a_tree() {
    let folder = tempfile::tempdir().expect("a folder");
    let ids = bank(folder.path()).close();
    let show = |arguments: &[&str]| printed(&cedrat(&[&["objects", text(folder.path()), "show"], arguments].concat()));
    let [tree, name, ada, list, savings, account, ints, point, map, ..] = &ids[..] else { unreachable!() };
    let expected = format!(
        r#"java.util.TreeMap {tree}, 1 entries
  "Ada \"the first\"" {name} → bank.Person {ada}
    name: "Ada \"the first\"" {name}
    accounts: java.util.ArrayList {list}, 2 elements
      [0] bank.Savings {savings} …
      [1] bank.Account {account} …
"#
    );
    assert_eq!(show(&["people"]), expected);
    let expected = format!(
        r#"bank.Savings {savings}
  bank.Account.balance: 100
  bank.Savings.balance: -7
  closed: true
  owner: bank.Person {ada}
    name: "Ada \"the first\"" {name}
    accounts: java.util.ArrayList {list}, 2 elements
      [0] bank.Savings {savings}, shown elsewhere
      … 1 more (--width)
  color: bank.Color.GREEN
"#
    );
    assert_eq!(show(&[savings, "--width", "1"]), expected);
    let expected = format!(
        r#"java.util.HashMap {map}, 2 entries
  Integer 3 → bank.Point {point}
    x: 9
    near: int[] {ints}, 3 elements
      [0] 10
      [1] 20
      [2] 30
  bank.Point {point}, shown elsewhere → List.of()
"#
    );
    assert_eq!(show(&["map"]), expected);
    assert_eq!(show(&["seven"]), "Integer 7\n");
    let unknown = cedrat(&["objects", text(folder.path()), "show", "unknown"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(errors(&unknown).contains("roots are map, people, seven"), "{}", errors(&unknown));
}

#[test]
fn an_object_is_a_tree_in_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let ids = bank(folder.path()).close();
    let show = |arguments: &[&str]| printed(&cedrat(&[&["objects", text(folder.path()), "show"], arguments].concat()));
    let [_, _, ada, _, savings, _, ints, point, ..] = &ids[..] else { unreachable!() };
    let found: Value = serde_json::from_str(&show(&[savings, "--depth", "1", "--json"])).unwrap();
    let field = |name: &str, of: &str, r#type: &str, value: Value| json!({"name": name, "of": of, "type": r#type, "value": value});
    assert_eq!(
        found,
        json!({"ok": true, "identity": savings, "class": "bank.Savings", "fields": [
            field("balance", "bank.Account", "long", json!(100)),
            field("balance", "bank.Savings", "int", json!(-7)),
            field("closed", "bank.Savings", "boolean", json!(true)),
            field("owner", "bank.Account", "bank.Person", json!({"identity": ada, "class": "bank.Person", "deeper": true})),
            field("color", "bank.Savings", "bank.Color", json!({"class": "bank.Color", "value": "GREEN"})),
        ]})
    );
    let found: Value = serde_json::from_str(&show(&["map", "--json"])).unwrap();
    let ints = json!({"identity": ints, "class": "[I", "length": 3, "elements": [10, 20, 30]});
    let object = "java.lang.Object";
    let shown = json!({"identity": point, "class": "bank.Point", "fields": [
        field("x", "bank.Point", "int", json!(9)),
        field("near", "bank.Point", object, ints),
    ]});
    assert_eq!(
        found["entries"],
        json!([
            {"key": {"class": "java.lang.Integer", "value": 3}, "value": shown},
            {"key": {"identity": point, "class": "bank.Point", "shown": true}, "value": {"value": "List.of()"}},
        ])
    );
}

#[test]
fn why_shows_the_shortest_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let ids = bank(folder.path()).close();
    let why = |identity: &str, more: &[&str]| {
        printed(&cedrat(&[&["objects", text(folder.path()), "why", identity], more].concat()))
    };
    let way = why(&ids[PLAIN], &[]);
    assert!(way.contains("people → [\"Ada \\\"the first\\\"\"] → accounts → [1]\n"), "{way}");
    assert!(way.contains(&format!("accounts: java.util.ArrayList {}\n", ids[ACCOUNTS_OF_ADA])), "{way}");
    let found: Value = serde_json::from_str(&why(&ids[ADA], &["--json"])).unwrap();
    assert_eq!(
        found,
        json!({"ok": true, "identity": ids[ADA], "class": "bank.Person", "is_reached": true, "root": "people", "steps": [
            {"by": "people", "identity": ids[TREE], "class": "java.util.TreeMap"},
            {"by": "[\"Ada \\\"the first\\\"\"]", "identity": ids[ADA], "class": "bank.Person"},
        ]})
    );
    // Both as a value and as a key.
    let found: Value = serde_json::from_str(&why(&ids[7], &["--json"])).unwrap();
    assert_eq!(found["steps"][1]["by"], "[Integer 3]");
    assert!(why(&ids[FORGOTTEN], &[]).contains("by no root: the next collection takes it"));
    let found: Value = serde_json::from_str(&why(&ids[FORGOTTEN], &["--json"])).unwrap();
    assert_eq!(found["is_reached"], false);
    for (wrong, said) in [("1:1", "no object"), ("people", "is no identity")] {
        let output = cedrat(&["objects", text(folder.path()), "why", wrong]);
        assert!(output.status.code() == Some(1) && errors(&output).contains(said), "{}", errors(&output));
    }
}

/// J10.
#[test]
fn classes_are_listed_as_they_are_stored() {
    let folder = tempfile::tempdir().expect("a folder");
    bank(folder.path()).close();
    let lines = printed(&cedrat(&["objects", text(folder.path()), "classes"]));
    let said = [
        "    2  class bank.Person, replaced by a later one\n         java.lang.String name\n         java.util.List accounts\n",
        "    6  enum bank.Color\n         RED\n         GREEN\n",
        "    7  record bank.Point\n         int x\n         java.lang.Object near\n",
        "    9  array bank.Account[]\n   10  class bank.Savings extends bank.Account (3)\n         boolean closed\n",
        "   12  form java.util.TreeMap, version 1\n",
    ];
    said.iter().for_each(|said| assert!(lines.contains(said), "{said} {lines}"));
    let found = json(&cedrat(&["objects", text(folder.path()), "classes", "--json"]));
    assert_eq!(
        found["classes"][9],
        json!({"number": 10, "kind": "object", "name": "bank.Savings", "is_replaced": false, "superclass": 3,
            "superclass_name": "bank.Account", "fields": [{"name": "closed", "type": "boolean"},
            {"name": "balance", "type": "int"}, {"name": "color", "type": "bank.Color"}]})
    );
    assert_eq!(found["classes"][5]["constants"], json!(["RED", "GREEN"]));
}

/// Values of Java name the classes of enums; those of another program have the tag that is given.
#[test]
fn verify_finds_classes_of_values() {
    let folder = tempfile::tempdir().expect("a folder");
    let bank = bank(folder.path());
    bank.graph.commit(Changes::new().set_root("constant", word(9, 77 << 24)), Mode::Sync).expect("a root");
    let plain = Graph::create(bank.graph.store(), "other", Options::default()).expect("a graph");
    let class = plain.define_class(b"").expect("a class");
    let mut changes = Changes::new();
    let new = changes.add(class, &[], &[word(9, 78 << 24), word(20, 79 << 24)]);
    plain.commit(changes.set_root("all", new), Mode::Sync).expect("an object");
    drop(plain);
    bank.close();
    let problems = |more: &[&str]| errors(&cedrat(&[&["verify", text(folder.path())], more].concat()));
    let of_java = "the root \"constant\" names a class: its class is 77, but there are 12";
    let said = problems(&[]);
    assert!(said.contains(of_java) && !said.contains("class is 78") && !said.contains("class is 79"), "{said}");
    let said = problems(&["--class-tag", "20"]);
    assert!(said.contains("its class is 79, but there are 1") && !said.contains(of_java), "{said}");
}

#[test]
fn corrupt_objects_are_named_and_rest_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let bank = bank(folder.path());
    bank.graph.define_class(b"no definition").expect("a definition of any bytes");
    let mut changes = Changes::new();
    let strange = [
        changes.add(13, &[], &[]),
        changes.add(ACCOUNT, &[], &[Reference::NULL]),
        changes.add(ACCOUNT, &[0; 8], &[]),
        changes.add(LIST, &7_u32.to_le_bytes(), &[]),
        changes.add(ACCOUNT, &[0; 8], &[word(200, 1)]),
        changes.add(STRING, &[7, 0, 0, 0, 0, 0, 0, 0], &[]),
        Identity::new(bank.ids[0].get() + 90).expect("it could be one").into(),
        word(5, 1),
    ];
    let all = changes.add(ACCOUNTS, &[], &strange);
    changes.set_root("strange", all);
    let new: Vec<String> = bank
        .graph
        .commit(&changes, Mode::Sync)
        .expect("the graph takes all")
        .identities
        .into_iter()
        .map(shown)
        .collect();
    let dangling = shown(Identity::new(bank.ids[0].get() + 90).unwrap());
    let ids = bank.close();
    let output = cedrat(&["objects", text(folder.path()), "show", "strange"]);
    let (lines, said) = (String::from_utf8(output.stdout.clone()).unwrap(), errors(&output));
    assert_eq!(output.status.code(), Some(1));
    assert!(lines.contains("[7] Integer 1\n") && lines.contains("balance: 0\n"), "{lines}");
    for said_of in [
        format!("the object {}: the definition of class 13 is corrupt: it has format 110", new[0]),
        format!("the object {}: byte 8: 8 bytes should follow, and there are 0", new[1]),
        format!("the object {}: byte 16: 1 references should follow, and there are 0", new[2]),
        format!("the object {}: byte 16: 7 entries should follow, and there are 0", new[3]),
        format!("the object {}: byte 16: the reference 0xc800000000000001 has a tag that is not known", new[4]),
        format!("the object {}: byte 8: characters of kind 7 are not known", new[5]),
        format!("the object {dangling}: "),
    ] {
        assert!(said.contains(&said_of), "{said_of} is not in\n{said}");
    }
    let output = cedrat(&["objects", text(folder.path()), "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).expect("the rest");
    let problems = found["problems"].as_array().expect("problems").iter().map(Value::to_string).collect::<String>();
    assert_eq!((output.status.code(), &found["ok"], &found["objects"]), (Some(1), &json!(false), &json!(17)));
    assert!(problems.contains("class 13 is corrupt: it has format 110"), "{problems}");
    assert!(problems.contains(&format!("the object {} leads to it", new[6])), "{problems}");
    assert!(printed(&cedrat(&["objects", text(folder.path()), "show", &ids[PLAIN]])).contains("balance: 5"));
}

#[test]
fn objects_in_doubt_are_shown_rolled_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let bank = bank(folder.path());
    let mut changes = Changes::new();
    let maybe = changes.add(STRING, &string("maybe"), &[]);
    changes.set_root("maybe", maybe).set_root("map", Reference::NULL);
    drop(bank.graph.prepare(changes.as_bytes(), b"branch").expect("it is prepared"));
    drop(bank); // its outcome is unknown
    let in_doubt = &json(&cedrat(&["info", text(folder.path()), "--json"]))["in_doubt"];
    assert_eq!(in_doubt.as_array().map(Vec::len), Some(1));
    let before = files(folder.path());
    let found = json(&cedrat(&["objects", text(folder.path()), "--json"]));
    let names: Vec<&str> =
        found["roots"].as_array().expect("roots").iter().filter_map(|root| root["name"].as_str()).collect();
    assert_eq!((names, &found["objects"]), (vec!["map", "people", "seven"], &json!(10)));
    assert_eq!(files(folder.path()), before, "it is still in doubt");
}

#[test]
fn the_graph_is_found_or_chosen() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = cedrat::open(folder.path()).expect("a store");
    let place = text(folder.path());
    let objects = |more: &[&str]| cedrat(&[&["objects", place, "--json"], more].concat());
    let close = |store: cedrat::Store| store.close().expect("it is not in use");
    close(store);
    assert!(errors(&objects(&[])).contains("no graph of objects"));
    for (name, expected) in [("first", Some("first")), ("second", None), ("objects", Some("objects"))] {
        let store = cedrat::open(folder.path()).expect("the store");
        drop(Graph::create(&store, name, Options::default()).expect("a graph"));
        close(store);
        let output = objects(&[]);
        match expected {
            Some(name) => assert_eq!(json(&output)["graph"], name),
            None => {
                assert!(errors(&output).contains("--graph with one of these: first, second"), "{}", errors(&output))
            }
        }
    }
    assert_eq!(json(&objects(&["--graph", "second"]))["graph"], "second");
    assert!(errors(&objects(&["--graph", "third"])).contains("first, objects, second"));
}

/// E21.7: a collection that ends may have taken pieces of an object, and not the object.
#[test]
fn half_removed_objects_are_no_problem() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = cedrat::open(folder.path()).expect("a store");
    let graph = Graph::create(&store, "objects", Options::default()).expect("a graph");
    graph.define_class(&definition(4, 0, "[B", &[])).expect("a class");
    let bytes = |len: u32| [&len.to_le_bytes()[..], &vec![7; len as usize]].concat();
    // Pages that are empty again lie before the object's; its pieces go there, and are removed first.
    let mut changes = Changes::new();
    for _ in 0..8 {
        changes.add(1, &bytes(3700), &[]);
    }
    graph.commit(&changes, Mode::Sync).expect("they fit");
    let mut changes = Changes::new();
    let long = changes.add(1, &bytes(500), &[]);
    changes.set_root("long", long);
    let long = graph.commit(&changes, Mode::Sync).expect("it fits").identities[0];
    let mut collection = graph.collect([]).expect("no other one runs");
    while collection.step(100).expect("it goes on") != Stage::Done {
        if collection.stage() == Stage::Marked {
            collection.seal([]).expect("all is marked");
        }
    }
    drop(collection);
    graph.commit(Changes::new().put(long, 1, &bytes(12_000), &[]), Mode::Sync).expect("it fits");
    graph.commit(Changes::new().remove_root("long"), Mode::Sync).expect("it was there");
    let mut collection = graph.collect([]).expect("no other one runs");
    while collection.step(100).expect("it goes on") != Stage::Marked {}
    collection.seal([]).expect("all is marked");
    while collection.collected().pieces == 0 {
        collection.step(1).expect("it goes on");
    }
    assert_eq!(collection.collected().objects, 0, "pieces were removed before it");
    drop(collection);
    drop(graph);
    store.close().expect("it is not in use");
    let found = json(&cedrat(&["objects", text(folder.path()), "--json"]));
    assert_eq!((&found["ok"], &found["objects"]), (&json!(true), &json!(0)));
    printed(&cedrat(&["verify", text(folder.path())]));
}

/// Names and strings come from the writer of the store: a terminal must not execute them.
#[test]
fn control_characters_are_shown_and_not_obeyed() {
    let folder = tempfile::tempdir().expect("a folder");
    let bank = bank(folder.path());
    let (root, class) = ("ev\u{1b}]0;title\u{7}il\nroots       0", "bank.\u{1b}[31mRed\nclasses");
    let class = bank.graph.define_class(&definition(1, 0, class, &[("na\u{1b}me\n", "J")])).expect("a class");
    let mut changes = Changes::new();
    let object = changes.add(class, &[0; 8], &[]);
    let damaged = changes.add(class, &[], &[]);
    changes.set_root(root, object);
    changes.set_root("\u{9b}2J", damaged);
    let identity = shown(bank.graph.commit(&changes, Mode::Sync).expect("they fit").identities[0]);
    bank.close();
    let store = text(folder.path());
    for what in [
        &["objects", store][..],
        &["objects", store, "show", root],
        &["objects", store, "show", "\u{9b}2J"],
        &["objects", store, "show", "no such root"],
        &["objects", store, "why", &identity],
        &["objects", store, "classes"],
        &["objects", store, "--graph", "no\u{1b} such"],
    ] {
        let output = cedrat(what);
        let said = String::from_utf8(output.stdout.clone()).expect("UTF-8") + &errors(&output);
        assert!(!said.is_empty() && !said.contains(|c: char| c.is_control() && c != '\n'), "{what:?}: {said:?}");
        let forged =
            |line: &str| line == "roots       0" || line.starts_with("classes") && !line.ends_with("unreached");
        assert!(!said.lines().any(forged), "{what:?}: {said}");
    }
    let lines = printed(&cedrat(&["objects", store, "show", root]));
    assert!(lines.starts_with(r"bank.\u{1b}[31mRed\nclasses "), "{lines}");
    let found = json(&cedrat(&["objects", store, "--json"]));
    assert!(found["roots"].as_array().expect("roots").iter().any(|shown| shown["name"] == root), "{found}");
}
