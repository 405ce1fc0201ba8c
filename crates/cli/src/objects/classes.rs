//! `cedrat objects DIR classes`: classes as they are stored.

use serde_json::{Map, Value as Json, json};

use super::{Seen, with_verdict};
use crate::java::{Definition, Kind, readable, readable_type};
use crate::output::{self, Outcome};

/// Prints the classes of a graph.
pub(super) fn list(seen: &Seen, as_json: bool) -> Outcome {
    let problems = seen.classes.problems();
    let replaced = seen.classes.replaced();
    if as_json {
        let class = |definition: &Definition| json_of(seen, definition, replaced.contains(&definition.number));
        let classes: Vec<Json> = seen.classes.known().map(class).collect();
        let found =
            Map::from_iter([("graph".to_string(), json!(seen.name)), ("classes".to_string(), Json::Array(classes))]);
        output::json(&with_verdict(found, &problems))?;
        return output::ended(&problems);
    }
    for definition in seen.classes.known() {
        let is_replaced = if replaced.contains(&definition.number) { ", replaced by a later one" } else { "" };
        output::show(format_args!("{:>5}  {}{is_replaced}", definition.number, head(seen, definition)))?;
        for member in &definition.members {
            match definition.kind {
                Kind::Enum => output::show(format_args!("         {}", member.name))?,
                _ => output::show(format_args!("         {} {}", readable_type(&member.descriptor), member.name))?,
            }
        }
    }
    output::ended(&problems)
}

fn head(seen: &Seen, definition: &Definition) -> String {
    let name = readable(&definition.name);
    let below = match definition.superclass {
        0 => String::new(),
        number => format!(" extends {} ({number})", seen.classes.name(number)),
    };
    match definition.kind {
        Kind::Object => format!("class {name}{below}"),
        Kind::Record => format!("record {name}"),
        Kind::Enum => format!("enum {name}"),
        Kind::Array => format!("array {name}"),
        Kind::Form => format!("form {name}, version {}", definition.version),
    }
}

fn json_of(seen: &Seen, definition: &Definition, is_replaced: bool) -> Json {
    let mut found = json!({
        "number": definition.number,
        "kind": definition.kind,
        "name": definition.name,
        "is_replaced": is_replaced,
    });
    if definition.superclass != 0 {
        found["superclass"] = json!(definition.superclass);
        found["superclass_name"] = json!(seen.classes.name(definition.superclass));
    }
    match definition.kind {
        Kind::Form => found["version"] = json!(definition.version),
        Kind::Enum => found["constants"] = definition.members.iter().map(|member| json!(member.name)).collect(),
        Kind::Object | Kind::Record => {
            let field =
                |member: &crate::java::Member| json!({"name": member.name, "type": readable_type(&member.descriptor)});
            found["fields"] = definition.members.iter().map(field).collect();
        }
        Kind::Array => {}
    }
    found
}
