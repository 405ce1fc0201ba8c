//! `cedrat objects DIR show`: an object, and what it leads to, as a tree.

use std::collections::HashSet;

use cedrat::graph::Identity;
use serde_json::{Map, Value as Json, json};

use super::summary::class_name;
use super::{Place, Problems, Seen, as_json, parsed, quoted, text, with_verdict};
use crate::arguments::ObjectsShow;
use crate::java::{self, Content, Meaning, Members, Value};
use crate::output::{self, Failure, Outcome, fail, grouped};

/// Characters of a string that are shown, for each element that is.
const CHARACTERS: usize = 100;

/// An object, and what it leads to as far as that is shown.
struct Node {
    identity: Identity,
    /// As it is stored.
    class: String,
    /// As one writes it.
    readable: String,
    is: Is,
}

enum Is {
    /// Shown elsewhere, or too deep.
    Named(&'static str, Option<Meaning>),
    Unreadable(String),
    Shown(Vec<Child>, Option<Meaning>, Shape),
}

/// Kind of the children.
#[derive(Clone, Copy)]
enum Shape {
    Fields,
    /// Total number of elements.
    Elements(usize),
    Entries(usize),
}

/// Fields have names, elements none, entries keys.
struct Child {
    name: Option<(String, Option<String>, Option<String>)>,
    key: Option<Branch>,
    value: Branch,
}

enum Branch {
    Leaf(Value),
    Node(Box<Node>),
}

struct Tree<'s> {
    seen: &'s Seen,
    width: usize,
    shown: HashSet<Identity>,
    problems: Problems,
}

/// Prints an object.
pub(super) fn show(seen: &Seen, arguments: &ObjectsShow, as_json_text: bool) -> Outcome {
    let value = match seen.graph.root(&arguments.object)? {
        Some(reference) => seen.value(reference),
        None => match parsed(&arguments.object) {
            Some(identity) => Value::Object(identity),
            None => return fail(no_such_root(seen, &arguments.object)?),
        },
    };
    let width = arguments.width as usize;
    let mut tree = Tree { seen, width, shown: HashSet::new(), problems: Problems::default() };
    let branch = tree.branch(value, arguments.depth);
    let problems = tree.problems.all();
    if as_json_text {
        let found = match json_of(&branch, width) {
            Json::Object(found) => found,
            other => Map::from_iter([("value".to_string(), other)]),
        };
        output::json(&with_verdict(found, &problems))?;
    } else {
        print(&branch, "", 0, width)?;
    }
    output::ended(&problems)
}

fn no_such_root(seen: &Seen, name: &str) -> Result<String, Failure> {
    let names: Vec<String> = seen.graph.roots()?.into_iter().map(|(name, _)| name).take(20).collect();
    Ok(format!(
        "there is no root {name}, and it is no identity, PAGE:SLOT; roots are {}",
        if names.is_empty() { "none".to_string() } else { names.join(", ") }
    ))
}

impl Tree<'_> {
    fn branch(&mut self, value: Value, depth: u32) -> Branch {
        match value {
            Value::Object(identity) => Branch::Node(Box::new(self.node(identity, depth))),
            other => {
                if let Value::Unreadable(why) = &other {
                    self.problems.add(why.clone());
                }
                Branch::Leaf(other)
            }
        }
    }

    fn node(&mut self, identity: Identity, depth: u32) -> Node {
        let object = match self.seen.object(identity) {
            Ok(object) => object,
            Err(Failure(why)) => return self.unreadable(identity, None, why),
        };
        let width = if depth == 0 { 0 } else { self.width };
        let content = match java::content(&self.seen.classes, &object, width) {
            Ok(content) => content,
            Err(why) => {
                return self.unreadable(identity, Some(object.class), format!("the object {}: {why}", Place(identity)));
            }
        };
        let has_none = matches!(&content.members, Members::Fields(fields) if fields.is_empty());
        let is = if self.shown.contains(&identity) {
            Is::Named("shown", content.meaning)
        } else if depth == 0 && !has_none {
            Is::Named("deeper", content.meaning)
        } else {
            self.shown.insert(identity);
            self.children(content, identity, depth)
        };
        Node {
            identity,
            class: class_name(self.seen, object.class),
            readable: self.seen.classes.name(object.class),
            is,
        }
    }

    fn unreadable(&mut self, identity: Identity, class: Option<u32>, why: String) -> Node {
        self.problems.add(why.clone());
        let class = class.map_or_else(String::new, |number| class_name(self.seen, number));
        Node { identity, readable: class.clone(), class, is: Is::Unreadable(why) }
    }

    fn children(&mut self, content: Content, identity: Identity, depth: u32) -> Is {
        let below = depth.saturating_sub(1);
        let child = |tree: &mut Self, name, key: Option<Value>, value: Value| {
            let with_place = |value: Value| match value {
                Value::Unreadable(why) => Value::Unreadable(format!("the object {}: {why}", Place(identity))),
                other => other,
            };
            let key = key.map(|key| tree.branch(with_place(key), below));
            Child { name, key, value: tree.branch(with_place(value), below) }
        };
        let mut children = Vec::new();
        if let Some(comparator) = content.comparator {
            children.push(child(self, Some(("comparator".to_string(), None, None)), None, comparator));
        }
        let shape = match content.members {
            Members::Fields(fields) => {
                let fields = fields.into_iter();
                children
                    .extend(fields.map(|field| {
                        child(self, Some((field.name, field.descriptor, field.class)), None, field.value)
                    }));
                Shape::Fields
            }
            Members::Elements(elements, len) => {
                children.extend(elements.into_iter().map(|element| child(self, None, None, element)));
                Shape::Elements(len)
            }
            Members::Entries(entries, len) => {
                children.extend(entries.into_iter().map(|(key, value)| child(self, None, Some(key), value)));
                Shape::Entries(len)
            }
        };
        Is::Shown(children, content.meaning, shape)
    }
}

// ---- JSON

fn json_of(branch: &Branch, width: usize) -> Json {
    let node = match branch {
        Branch::Leaf(value) => return as_json(value),
        Branch::Node(node) => node,
    };
    let mut found = json!({"identity": Place(node.identity).to_string()});
    if !node.class.is_empty() {
        found["class"] = json!(node.class);
    }
    match &node.is {
        Is::Unreadable(why) => found["problem"] = json!(why),
        Is::Named(why, meaning) => {
            found[*why] = json!(true);
            put_meaning(&mut found, meaning.as_ref(), width);
        }
        Is::Shown(children, meaning, shape) => {
            put_meaning(&mut found, meaning.as_ref(), width);
            put_children(&mut found, children, *shape, width);
        }
    }
    found
}

fn put_meaning(found: &mut Json, meaning: Option<&Meaning>, width: usize) {
    match meaning {
        None => {}
        Some(Meaning::Other(value)) => found["value"] = json!(value),
        Some(Meaning::Text(text)) => {
            let shown: String = text.chars().take(CHARACTERS * width).collect();
            if shown.len() < text.len() {
                found["length"] = json!(text.chars().count());
            }
            found["value"] = json!(shown);
        }
    }
}

fn put_children(found: &mut Json, children: &[Child], shape: Shape, width: usize) {
    let mut members = Vec::new();
    for child in children {
        let value = json_of(&child.value, width);
        match (&child.name, &child.key) {
            (Some((name, _, _)), _) if !matches!(shape, Shape::Fields) => found[name] = value,
            (Some((name, descriptor, class)), _) => {
                let mut member = json!({"name": name, "value": value});
                if let (Some(descriptor), Some(class)) = (descriptor, class) {
                    member["type"] = json!(descriptor);
                    member["of"] = json!(class);
                }
                members.push(member);
            }
            (None, Some(key)) => members.push(json!({"key": json_of(key, width), "value": value})),
            (None, None) => members.push(value),
        }
    }
    match shape {
        Shape::Fields if members.is_empty() => {}
        Shape::Fields => found["fields"] = Json::Array(members),
        Shape::Elements(len) => {
            found["length"] = json!(len);
            found["elements"] = Json::Array(members);
        }
        Shape::Entries(len) => {
            found["length"] = json!(len);
            found["entries"] = Json::Array(members);
        }
    }
}

// ---- text

/// Returns the line of a branch.
fn head(branch: &Branch, width: usize) -> String {
    let node = match branch {
        Branch::Leaf(value) => return text(value),
        Branch::Node(node) => node,
    };
    let place = Place(node.identity);
    let (meaning, behind) = match &node.is {
        Is::Unreadable(why) => return format!("{} {place}: ? {why}", node.readable).trim_start().to_string(),
        Is::Named("shown", meaning) => (meaning, ", shown elsewhere".to_string()),
        Is::Named(_, meaning) => (meaning, " …".to_string()),
        Is::Shown(_, meaning, Shape::Fields) => (meaning, String::new()),
        Is::Shown(_, meaning, Shape::Elements(len)) => (meaning, format!(", {} elements", grouped(*len as u64))),
        Is::Shown(_, meaning, Shape::Entries(len)) => (meaning, format!(", {} entries", grouped(*len as u64))),
    };
    match meaning {
        Some(Meaning::Text(text)) if node.class == "java.lang.String" => {
            format!("{} {place}", quoted(text, CHARACTERS * width))
        }
        Some(Meaning::Text(text)) => format!("{} {place} {}", node.readable, quoted(text, CHARACTERS * width)),
        Some(Meaning::Other(value)) => format!("{} {place} {value}{behind}", node.readable),
        None => format!("{} {place}{behind}", node.readable),
    }
}

/// Whether a branch has lines of its own below its head.
fn has_children(branch: &Branch) -> bool {
    matches!(branch, Branch::Node(node) if matches!(&node.is, Is::Shown(children, _, _) if !children.is_empty()))
}

fn print(branch: &Branch, before: &str, indent: usize, width: usize) -> Outcome {
    output::show(format_args!("{:indent$}{before}{}", "", head(branch, width)))?;
    let Branch::Node(node) = branch else { return Ok(()) };
    let Is::Shown(children, _, shape) = &node.is else { return Ok(()) };
    let indent = indent + 2;
    for (number, child) in children.iter().enumerate() {
        match (&child.name, &child.key) {
            (Some((name, _, class)), _) => {
                let is_hidden =
                    |other: &Child| matches!(&other.name, Some((same, _, of)) if same == name && of != class);
                let before = match class {
                    // Of two fields of the same name, whose they are.
                    Some(class) if children.iter().any(is_hidden) => format!("{class}.{name}: "),
                    _ => format!("{name}: "),
                };
                print(&child.value, &before, indent, width)?;
            }
            (None, Some(key)) if has_children(key) => {
                print(key, "key ", indent, width)?;
                print(&child.value, "→ ", indent, width)?;
            }
            (None, Some(key)) => print(&child.value, &format!("{} → ", head(key, width)), indent, width)?,
            (None, None) => print(&child.value, &format!("[{number}] "), indent, width)?,
        }
    }
    if let Shape::Elements(len) | Shape::Entries(len) = shape {
        let shown = children.iter().filter(|child| child.name.is_none()).count();
        if shown < *len {
            output::show(format_args!("{:indent$}… {} more (--width)", "", grouped((len - shown) as u64)))?;
        }
    }
    Ok(())
}
