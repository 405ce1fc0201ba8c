//! `cedrat objects DIR`: roots, and how many objects there are of each class.

use std::collections::BTreeMap;

use cedrat::graph::{Graph, Identity};
use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use super::reach::{By, Reach};
use super::{Place, Problems, Seen, as_json, with_verdict};
use crate::java::{Kind, Value};
use crate::output::{self, Context, Failure, Outcome, bytes, grouped, progress};

/// Objects, and their bytes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Count {
    objects: u64,
    bytes: u64,
    /// Number of these that no root reaches.
    unreached_objects: u64,
    unreached_bytes: u64,
}

impl Count {
    fn add(&mut self, other: Count) {
        self.objects += other.objects;
        self.bytes += other.bytes;
        self.unreached_objects += other.unreached_objects;
        self.unreached_bytes += other.unreached_bytes;
    }
}

/// Counts of objects.
struct Counted {
    by_class: BTreeMap<u32, Count>,
    problems: Problems,
}

/// Prints what a graph has.
pub(super) fn summary(seen: &Seen, json: bool) -> Outcome {
    let mut counted = Counted { by_class: BTreeMap::new(), problems: Problems::default() };
    seen.classes.problems().into_iter().for_each(|problem| counted.problems.add(problem));
    let roots = seen.graph.roots()?;
    let mut shown_roots = Vec::new();
    let mut reach = Reach::new()?;
    for (number, (name, to)) in roots.iter().enumerate() {
        let value = seen.value(*to);
        match &value {
            Value::Object(identity) => {
                reach.meet(*identity, By::Root(number))?;
            }
            Value::Unreadable(why) => counted.problems.add(format!("the root {name}: {why}")),
            _ => {}
        }
        shown_roots.push((name, value));
    }
    count_reached(seen, &mut reach, &mut counted, &roots.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>())?;
    count_others(&seen.graph, &reach, &mut counted);
    report(seen, &shown_roots, counted, json)
}

/// Follows all references.
fn count_reached(seen: &Seen, reach: &mut Reach, counted: &mut Counted, roots: &[&str]) -> Outcome {
    let bar = progress(reach.len(), "following references");
    let mut number = 0;
    while number < reach.len() {
        let (identity, by) = reach.get(number)?;
        match seen.object(identity) {
            Ok(object) => {
                for reference in &object.references {
                    let Some(to) = reference.identity() else { continue };
                    reach.meet(to, By::Met(number))?;
                }
                let bytes = 8 + object.data.len() as u64 + 8 * object.references.len() as u64;
                let count = counted.by_class.entry(object.class).or_default();
                count.add(Count { objects: 1, bytes, ..Count::default() });
            }
            Err(Failure(why)) => {
                let by = match by {
                    By::Root(root) => format!("the root {}", roots[root]),
                    By::Met(number) => format!("the object {}", Place(reach.get(number)?.0)),
                };
                counted.problems.add(format!("{why}; {by} leads to it"));
            }
        }
        number += 1;
        if number % 1024 == 0 {
            bar.set_length(reach.len());
            bar.set_position(number);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// Counts what no root reaches, page by page. Damaged pages are reported, and the rest is counted.
fn count_others(graph: &Graph, reach: &Reach, counted: &mut Counted) {
    let pages = match graph.object_pages().while_doing("listing pages with objects") {
        Ok(pages) => pages,
        Err(Failure(why)) => return counted.problems.add(why),
    };
    let bar = progress(pages.len() as u64, "looking for what none reaches");
    for page in pages {
        bar.inc(1);
        let identities = match graph.objects_of_page(page) {
            Ok(identities) => identities,
            Err(error) => {
                counted.problems.add(Failure::from(error).0);
                continue;
            }
        };
        for identity in identities.into_iter().filter(|identity| !reach.has_met(*identity)) {
            count_unreached(graph, identity, counted);
        }
    }
    bar.finish_and_clear();
}

fn count_unreached(graph: &Graph, identity: Identity, counted: &mut Counted) {
    match graph.unreached_object(identity).while_doing(format_args!("the object {}", Place(identity))) {
        // A collection has begun to remove it, and the next one goes on with that.
        Ok(None) => {}
        Ok(Some(object)) => {
            let bytes = 8 + object.data.len() as u64 + 8 * object.references.len() as u64;
            let count = counted.by_class.entry(object.class).or_default();
            count.add(Count { objects: 1, bytes, unreached_objects: 1, unreached_bytes: bytes });
        }
        Err(Failure(why)) => counted.problems.add(why),
    }
}

fn report(seen: &Seen, roots: &[(&String, Value)], counted: Counted, json: bool) -> Outcome {
    let mut total = Count::default();
    counted.by_class.values().for_each(|count| total.add(*count));
    let mut classes: Vec<(u32, Count)> = counted.by_class.into_iter().collect();
    // The largest first, and among equals the oldest.
    classes.sort_by_key(|(_, count)| std::cmp::Reverse(count.bytes));
    let problems = counted.problems.all();
    if json {
        let found = json_of(seen, roots, &classes, total)?;
        output::json(&with_verdict(found, &problems))?;
    } else {
        print(seen, roots, &classes, total)?;
    }
    output::ended(&problems)
}

fn json_of(
    seen: &Seen,
    roots: &[(&String, Value)],
    classes: &[(u32, Count)],
    total: Count,
) -> Result<Map<String, Json>, Failure> {
    let Json::Object(mut found) = serde_json::to_value(total)? else { unreachable!("it has fields") };
    found.insert("graph".to_string(), json!(seen.name));
    let root = |(name, value): &(&String, Value)| {
        let class = match value {
            Value::Object(identity) => seen.object(*identity).ok().map(|object| class_name(seen, object.class)),
            _ => None,
        };
        let mut shown = json!({"name": name, "value": as_json(value)});
        if let Some(class) = class {
            shown["value"]["class"] = json!(class);
        }
        shown
    };
    found.insert("roots".to_string(), roots.iter().map(root).collect());
    let replaced = seen.classes.replaced();
    let mut shown_classes = Vec::new();
    for (number, count) in classes {
        let mut shown = serde_json::to_value(count)?;
        shown["class"] = json!(class_name(seen, *number));
        shown["definition"] = json!(number);
        shown["is_replaced"] = json!(replaced.contains(number));
        shown_classes.push(shown);
    }
    found.insert("classes".to_string(), Json::Array(shown_classes));
    Ok(found)
}

/// The name as it is stored, of arrays too; of what cannot be read the number.
pub(super) fn class_name(seen: &Seen, number: u32) -> String {
    seen.classes.get(number).map_or_else(|_| seen.classes.name(number), |definition| definition.name.clone())
}

fn print(seen: &Seen, roots: &[(&String, Value)], classes: &[(u32, Count)], total: Count) -> Outcome {
    let mut rows = vec![("graph", seen.name.clone()), ("roots", grouped(roots.len() as u64))];
    let root = |(name, value): &(&String, Value)| {
        let shown = match value {
            Value::Object(identity) => match seen.object(*identity) {
                Ok(object) => format!("{} {}", seen.classes.name(object.class), Place(*identity)),
                Err(_) => Place(*identity).to_string(),
            },
            other => super::text(other),
        };
        format!("{name} → {shown}")
    };
    rows.extend(roots.iter().map(|each| ("", root(each))));
    let of = |objects: u64, bytes_of: u64| format!("{} ({})", grouped(objects), bytes(bytes_of));
    rows.push(("objects", of(total.objects, total.bytes)));
    rows.push(("unreached", of(total.unreached_objects, total.unreached_bytes)));
    rows.push(("classes", format!("{:>13} {:>10} {:>13}", "objects", "bytes", "unreached")));
    let replaced = seen.classes.replaced();
    for (number, count) in classes {
        let older = if replaced.contains(number) { format!(" (older definition, {number})") } else { String::new() };
        let is_record = seen.classes.get(*number).is_ok_and(|definition| definition.kind == Kind::Record);
        let kind = if is_record { " (record)" } else { "" };
        rows.push((
            "",
            format!(
                "{:>13} {:>10} {:>13}  {}{kind}{older}",
                grouped(count.objects),
                bytes(count.bytes),
                grouped(count.unreached_objects),
                seen.classes.name(*number)
            ),
        ));
    }
    output::rows(&rows)
}
