//! `cedrat objects`: Java objects as an operator sees them.

mod classes;
mod reach;
mod show;
mod summary;
mod why;

use std::fmt::{self, Write as _};

use cedrat::graph::{Graph, Identity, Object, Options, Reference};
use cedrat::structures::{Catalogue, Kind};
use serde_json::{Map, Value as Json, json};

use crate::arguments::{Objects, ObjectsWhat};
use crate::disks::Disks;
use crate::java::{self, Classes, Meaning, Value, readable};
use crate::look::Looked;
use crate::output::{Context, Failure, Outcome, fail};
use crate::verify::{Recovered, opened};

/// Name of Java's graph.
const OF_JAVA: &str = "objects";

/// Maximum number of problems that are listed one by one.
const PROBLEMS_MAX: usize = 100;

/// Looks at the objects of a store.
pub(crate) fn objects(arguments: &Objects, disks: &Disks) -> Outcome {
    // A directory without a store is refused before anything is prepared for it.
    drop(Looked::at_any(&arguments.directory, disks)?);
    let seen = Seen::open(arguments, disks)?;
    match &arguments.what {
        None => summary::summary(&seen, arguments.json),
        Some(ObjectsWhat::Show(what)) => show::show(&seen, what, arguments.json),
        Some(ObjectsWhat::Why(what)) => why::why(&seen, what, arguments.json),
        Some(ObjectsWhat::Classes) => classes::list(&seen, arguments.json),
    }
}

/// A graph of a store as recovery leaves it.
struct Seen {
    name: String,
    graph: Graph,
    classes: Classes,
    _recovered: Recovered,
}

impl Seen {
    fn open(arguments: &Objects, disks: &Disks) -> Result<Seen, Failure> {
        let recovered = opened(&arguments.directory, disks)?;
        let store = &recovered.store;
        let mut txn = store.begin();
        let all = Catalogue::open(store)?.list(&mut txn)?;
        txn.rollback()?;
        let mut graphs: Vec<String> =
            all.into_iter().filter(|named| named.kind == Kind::Graph).map(|named| named.name).collect();
        graphs.sort();
        let wanted = arguments.graph.as_deref().or_else(|| match &graphs[..] {
            [only] => Some(only),
            several => several.iter().map(String::as_str).find(|name| *name == OF_JAVA),
        });
        let name = match wanted {
            Some(name) if graphs.iter().any(|graph| graph == name) => name.to_string(),
            _ if graphs.is_empty() => {
                return fail("the store has no graph of objects; `cedrat verify` lists what it has");
            }
            _ => return fail(format!("say --graph with one of these: {}", graphs.join(", "))),
        };
        let graph = Graph::open(store, &name, Options::default()).while_doing(&name)?;
        let classes = Classes::new(graph.classes());
        Ok(Seen { name, graph, classes, _recovered: recovered })
    }

    /// An object, or why it cannot be read.
    fn object(&self, identity: Identity) -> Result<Object, Failure> {
        self.graph.object(identity).while_doing(format_args!("the object {}", Place(identity)))
    }

    /// Returns the short form of a reference in a line; for an object its class and identity, if it can be read.
    fn line(&self, value: &Value) -> String {
        match value {
            Value::Object(identity) => match self.object(*identity) {
                Ok(object) => self.line_of_object(*identity, &object),
                Err(_) => Place(*identity).to_string(),
            },
            other => text(other),
        }
    }

    fn line_of_object(&self, identity: Identity, object: &Object) -> String {
        match java::content(&self.classes, object, 0).ok().and_then(|content| content.meaning) {
            Some(Meaning::Text(text)) => quoted(&text, 40),
            Some(Meaning::Other(value)) => value,
            None => format!("{} {}", self.classes.name(object.class), Place(identity)),
        }
    }

    /// A root's word, as one that lies in an object.
    fn value(&self, reference: Reference) -> Value {
        java::value(&self.classes, reference, 0)
    }
}

/// An identity as Java's messages have it.
#[derive(Clone, Copy)]
struct Place(Identity);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.get() >> 16, self.0.get() & 0xffff)
    }
}

/// Parses an identity as typed by a user.
fn parsed(text: &str) -> Option<Identity> {
    let (page, slot) = text.split_once(':')?;
    let (page, slot) = (page.parse::<u64>().ok()?, slot.parse::<u16>().ok()?);
    Identity::new(page.checked_mul(1 << 16)? | u64::from(slot))
}

/// A value in a line.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_string(),
        Value::Boolean(value) => value.to_string(),
        Value::Character(unit) => format!("'{}'", character(*unit)),
        Value::Integer(value) => value.to_string(),
        Value::Float(value) => format!("{value:?}"),
        Value::Double(value) => format!("{value:?}"),
        Value::Boxed(class, value) => format!("{} {}", class.trim_start_matches("java.lang."), text(value)),
        Value::Constant(class, name) => format!("{}.{name}", readable(class)),
        Value::Once(name) => (*name).to_string(),
        Value::Object(identity) => Place(*identity).to_string(),
        Value::Text(said) => quoted(said, usize::MAX),
        Value::Free => "? nothing, outside of a collection".to_string(),
        Value::Unreadable(why) => format!("? {why}"),
    }
}

/// A value as JSON: a primitive one as itself, what is an object in Java with its class.
fn as_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Boolean(value) => json!(value),
        Value::Character(unit) => json!(character(*unit)),
        Value::Integer(value) => json!(value),
        Value::Float(value) => number(f64::from(*value), value),
        Value::Double(value) => number(*value, value),
        Value::Boxed(class, value) => json!({"class": class, "value": as_json(value)}),
        Value::Constant(class, name) => json!({"class": class, "value": name}),
        Value::Once(name) => json!({"value": name}),
        Value::Object(identity) => json!({"identity": Place(*identity).to_string()}),
        Value::Text(said) => json!({"class": "java.lang.String", "value": said}),
        Value::Free => json!({"problem": "nothing, outside of a collection"}),
        Value::Unreadable(why) => json!({"problem": why}),
    }
}

/// JSON has no infinite numbers, and none that is not a number.
fn number(value: f64, shown: &impl fmt::Debug) -> Json {
    if value.is_finite() { json!(value) } else { json!(format!("{shown:?}")) }
}

/// A UTF-16 unit; of a half of a pair its number.
fn character(unit: u16) -> String {
    match char::from_u32(unit.into()) {
        Some(character) if !character.is_control() => character.to_string(),
        _ => format!("\\u{unit:04x}"),
    }
}

/// A string in a line: its first `max` characters.
fn quoted(text: &str, max: usize) -> String {
    let mut line = String::from("\"");
    for (at, character) in text.chars().enumerate() {
        if at == max {
            let _ = write!(line, "\"… ({} characters)", text.chars().count()); // a string takes everything
            return line;
        }
        match character {
            '"' | '\\' => line.extend(['\\', character]),
            _ if character.is_control() => line.extend(character.escape_default()),
            _ => line.push(character),
        }
    }
    line.push('"');
    line
}

/// Problems of reading.
#[derive(Debug, Default)]
struct Problems {
    listed: Vec<String>,
    others: u64,
}

impl Problems {
    fn add(&mut self, problem: String) {
        if self.listed.len() < PROBLEMS_MAX {
            self.listed.push(problem);
        } else {
            self.others += 1;
        }
    }

    fn all(mut self) -> Vec<String> {
        if self.others > 0 {
            self.listed.push(format!("and {} others", self.others));
        }
        self.listed
    }
}

/// Puts what could not be read into a JSON object, and says whether that is nothing.
fn with_verdict(mut found: Map<String, Json>, problems: &[String]) -> Json {
    found.insert("ok".to_string(), json!(problems.is_empty()));
    if !problems.is_empty() {
        found.insert("problems".to_string(), json!(problems));
    }
    Json::Object(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_written_and_read() {
        let identity = Identity::new(70_000 << 16 | 12).unwrap();
        assert_eq!(Place(identity).to_string(), "70000:12");
        assert_eq!(parsed("70000:12"), Some(identity));
        for wrong in ["", "7", "7:", ":7", "7:0", "0:7", "7:70000", "-1:3", "281474976710656:1", "accounts"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn different_values_print_differently() {
        assert_eq!(quoted("a\"b\\\n", 9), r#""a\"b\\\n""#);
        assert_eq!(quoted("abc", 2), "\"ab\"… (3 characters)");
        assert_eq!(text(&Value::Character(0xd800)), "'\\ud800'");
        assert_eq!(text(&Value::Boxed("java.lang.Long", Box::new(Value::Integer(3)))), "Long 3");
        assert_eq!(as_json(&Value::Double(f64::NAN)), json!("NaN"));
        assert_eq!(as_json(&Value::Float(0.5)), json!(0.5));
    }
}
