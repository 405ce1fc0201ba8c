//! `cedrat objects DIR why`: a shortest way from a root to an object.

use cedrat::graph::{Identity, Reference};
use serde_json::{Map, Value as Json, json};

use super::reach::{By, Reach};
use super::summary::class_name;
use super::{Place, Problems, Seen, parsed, with_verdict};
use crate::arguments::ObjectsWhy;
use crate::java;
use crate::output::{self, Failure, Outcome, fail, progress};

/// One reference of a way, and where it leads.
struct Step {
    by: String,
    to: Identity,
}

/// Prints why an object is there.
pub(super) fn why(seen: &Seen, arguments: &ObjectsWhy, as_json: bool) -> Outcome {
    let Some(target) = parsed(&arguments.identity) else {
        return fail(format!(
            "{} is no identity: PAGE:SLOT, as `cedrat objects DIR show ROOT` prints",
            arguments.identity
        ));
    };
    // What is not there needs no search.
    let object = seen.object(target)?;
    let mut problems = Problems::default();
    let mut roots = Vec::new();
    let mut reach = Reach::new()?;
    for (number, (name, to)) in seen.graph.roots()?.into_iter().enumerate() {
        if let Some(identity) = to.identity() {
            reach.meet(identity, By::Root(number))?;
        }
        roots.push(name);
    }
    let found = search(seen, &mut reach, target, &mut problems)?;
    let way = found.map(|number| way(seen, &reach, number, &roots)).transpose()?;
    let problems = problems.all();
    let class = class_name(seen, object.class);
    if as_json {
        let mut shown = Map::new();
        shown.insert("identity".to_string(), json!(Place(target).to_string()));
        shown.insert("class".to_string(), json!(class));
        shown.insert("is_reached".to_string(), json!(way.is_some()));
        if let Some((root, steps)) = &way {
            shown.insert("root".to_string(), json!(root));
            shown.insert("steps".to_string(), steps.iter().map(|step| json_of(seen, step)).collect());
        }
        output::json(&with_verdict(shown, &problems))?;
        return output::ended(&problems);
    }
    let rows = match &way {
        None => vec![
            ("object", seen.line_of_object(target, &object)),
            ("reached", "by no root: the next collection takes it".to_string()),
        ],
        Some((root, steps)) => {
            let words: Vec<&str> =
                [root.as_str()].into_iter().chain(steps[1..].iter().map(|step| step.by.as_str())).collect();
            let mut rows = vec![("reached", words.join(" → "))];
            rows.extend(steps.iter().map(|step| ("", format!("{}: {}", step.by, name(seen, step.to)))));
            rows
        }
    };
    output::rows(&rows)?;
    output::ended(&problems)
}

fn name(seen: &Seen, identity: Identity) -> String {
    match seen.object(identity) {
        Ok(object) => format!("{} {}", seen.classes.name(object.class), Place(identity)),
        Err(_) => Place(identity).to_string(),
    }
}

fn json_of(seen: &Seen, step: &Step) -> Json {
    let class = seen.object(step.to).ok().map(|object| class_name(seen, object.class));
    json!({"by": step.by, "identity": Place(step.to).to_string(), "class": class})
}

/// As what the object was met, if it was.
fn search(seen: &Seen, reach: &mut Reach, target: Identity, problems: &mut Problems) -> Result<Option<u64>, Failure> {
    let bar = progress(reach.len(), "following references");
    let mut number = 0;
    while number < reach.len() {
        let (identity, _) = reach.get(number)?;
        if identity == target {
            bar.finish_and_clear();
            return Ok(Some(number));
        }
        match seen.object(identity) {
            Ok(object) => {
                for to in object.references.iter().filter_map(|reference| reference.identity()) {
                    reach.meet(to, By::Met(number))?;
                }
            }
            // Another way may be there.
            Err(Failure(why)) => problems.add(why),
        }
        number += 1;
        if number % 1024 == 0 {
            bar.set_length(reach.len());
            bar.set_position(number);
        }
    }
    bar.finish_and_clear();
    Ok(None)
}

/// The root, and the steps from it, of which the first is itself.
fn way(seen: &Seen, reach: &Reach, number: u64, roots: &[String]) -> Result<(String, Vec<Step>), Failure> {
    let mut steps = Vec::new();
    let (mut to, mut by) = reach.get(number)?;
    loop {
        match by {
            By::Root(root) => {
                steps.push(Step { by: roots[root].clone(), to });
                steps.reverse();
                return Ok((roots[root].clone(), steps));
            }
            By::Met(number) => {
                let (from, by_before) = reach.get(number)?;
                let object = seen.object(from)?;
                let index = object.references.iter().position(|reference| *reference == Reference::from(to));
                let index = index.expect("it was met by that reference");
                steps.push(Step { by: java::step(&seen.classes, &object, index, |key| seen.line(key)), to });
                (to, by) = (from, by_before);
            }
        }
    }
}
