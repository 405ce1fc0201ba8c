//! What an object is: fields, elements or entries, and what its data say.

use cedrat::graph::Object;

use super::bytes::Bytes;
use super::classes::{self, Classes, Definition, Kind, primitive_len};
use super::forms::{Form, Meaning, References};
use super::words::{Value, value};

/// Bytes of an object before its data.
const HEADER_LEN: usize = 8;

/// An object, decoded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Content {
    /// What it says without its references: the characters of a string, a date.
    pub(crate) meaning: Option<Meaning>,
    /// What its elements are ordered by, if not by themselves.
    pub(crate) comparator: Option<Value>,
    pub(crate) members: Members,
}

/// What an object consists of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Members {
    /// By name.
    Fields(Vec<Field>),
    /// The first ones, and how many there are in all.
    Elements(Vec<Value>, usize),
    /// As elements: keys and values.
    Entries(Vec<(Value, Value)>, usize),
}

/// A field that has a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    /// The class that declares it; of a form none.
    pub(crate) class: Option<String>,
    pub(crate) name: String,
    /// As `long`, or as `bank.Account[]`; of a form none.
    pub(crate) descriptor: Option<String>,
    pub(crate) value: Value,
}

/// Decodes an object, with at most `width` of its elements or entries. Errors say where in the object, counted from its first byte.
pub(crate) fn content(classes: &Classes, object: &Object, width: usize) -> Result<Content, String> {
    let definition = classes.get(object.class)?;
    match definition.kind {
        Kind::Object | Kind::Record => fields(classes, object),
        Kind::Array => array(classes, object, definition, width),
        Kind::Form => form(classes, object, definition, width),
        Kind::Enum => Err(format!("byte 0: its class is the enum {}, which has no objects", definition.name)),
    }
}

fn word(classes: &Classes, object: &Object, index: usize) -> Value {
    value(classes, object.references[index], place(object, index))
}

/// Where a reference is, counted from the object's first byte.
fn place(object: &Object, index: usize) -> usize {
    HEADER_LEN + object.data.len() + 8 * index
}

fn fields(classes: &Classes, object: &Object) -> Result<Content, String> {
    let (primitive, references) = classes.fields(object.class)?;
    let mut bytes = Bytes::new(&object.data, HEADER_LEN);
    let mut found = Vec::new();
    let field = |of: &classes::Field<'_>, value| Field {
        class: Some(of.class.name.clone()),
        name: of.member.name.clone(),
        descriptor: Some(classes::readable_type(&of.member.descriptor)),
        value,
    };
    for of in &primitive {
        found.push(field(of, primitive_value(&of.member.descriptor, &mut bytes)?));
    }
    if object.references.len() != references.len() {
        let (there, wanted) = (object.references.len(), references.len());
        return Err(format!("byte {}: {wanted} references should follow, and there are {there}", place(object, 0)));
    }
    found.extend(references.iter().enumerate().map(|(index, of)| field(of, word(classes, object, index))));
    Ok(Content { meaning: None, comparator: None, members: Members::Fields(found) })
}

fn primitive_value(descriptor: &str, bytes: &mut Bytes<'_>) -> Result<Value, String> {
    Ok(match descriptor {
        "Z" => Value::Boolean(bytes.u8()? != 0),
        "B" => Value::Integer(bytes.u8()?.cast_signed().into()),
        "C" => Value::Character(bytes.u16()?),
        "S" => Value::Integer(bytes.u16()?.cast_signed().into()),
        "I" => Value::Integer(bytes.i32()?.into()),
        "J" => Value::Integer(bytes.i64()?),
        "F" => Value::Float(f32::from_bits(bytes.u32()?)),
        _ => Value::Double(f64::from_bits(bytes.u64()?)),
    })
}

fn array(classes: &Classes, object: &Object, definition: &Definition, width: usize) -> Result<Content, String> {
    let Some(element) = definition.name.strip_prefix('[') else {
        return Err(format!("byte 0: its class is called {}, which is no array's name", definition.name));
    };
    let Some(len) = primitive_len(element) else {
        let shown = (0..object.references.len().min(width)).map(|index| word(classes, object, index)).collect();
        return Ok(Content {
            meaning: None,
            comparator: None,
            members: Members::Elements(shown, object.references.len()),
        });
    };
    let mut bytes = Bytes::new(&object.data, HEADER_LEN);
    let (count, _) = (bytes.u32()? as usize, bytes.u32()?);
    if count.checked_mul(len).is_none_or(|len| len > object.data.len() - HEADER_LEN) {
        return Err(format!("byte {HEADER_LEN}: it has no room for {count} elements"));
    }
    let shown = (0..count.min(width)).map(|_| primitive_value(element, &mut bytes)).collect::<Result<_, _>>()?;
    Ok(Content { meaning: None, comparator: None, members: Members::Elements(shown, count) })
}

fn form(classes: &Classes, object: &Object, definition: &Definition, width: usize) -> Result<Content, String> {
    let form = Form::of(&definition.name, definition.version)?;
    let said = form.read(&object.data)?;
    let there = object.references.len();
    let word = |index| word(classes, object, index);
    let first = first_member(form.references);
    let count = said.size.unwrap_or(there.saturating_sub(first));
    if first > there || count > there - first {
        let wanted = said.size.unwrap_or(first);
        return Err(format!("byte {}: {wanted} references should follow, and there are {there}", place(object, 0)));
    }
    let named = |name: &str, value| Field { class: None, name: name.to_string(), descriptor: None, value };
    let members = match form.references {
        References::None => Members::Fields(Vec::new()),
        References::Counted | References::Elements | References::Ordered => {
            Members::Elements((first..first + count.min(width)).map(word).collect(), count)
        }
        References::Entries | References::OrderedEntries => {
            if count % 2 != 0 {
                return Err(format!("byte {}: a key has no value", place(object, there - 1)));
            }
            let entries = count / 2;
            let pair = |entry| (word(first + 2 * entry), word(first + 2 * entry + 1));
            Members::Entries((0..entries.min(width)).map(pair).collect(), entries)
        }
        References::Named(names) => {
            Members::Fields(names.iter().take(there).enumerate().map(|(at, name)| named(name, word(at))).collect())
        }
    };
    let comparator = (first == 1).then(|| word(0)).filter(|comparator| *comparator != Value::Null);
    Ok(Content { meaning: said.value, comparator, members })
}

/// References that come before elements or entries.
fn first_member(references: References) -> usize {
    match references {
        References::Ordered | References::OrderedEntries => 1,
        _ => 0,
    }
}

/// How one gets from an object to what reference `index` leads to, as `owner` or `[3]`. `show` says what a key is.
pub(crate) fn step(classes: &Classes, object: &Object, index: usize, show: impl Fn(&Value) -> String) -> String {
    let in_turn = || format!("[{index}]");
    let Ok(definition) = classes.get(object.class) else { return in_turn() };
    match definition.kind {
        Kind::Object | Kind::Record => match classes.fields(object.class) {
            Ok((_, references)) => references.get(index).map_or_else(in_turn, |field| field.member.name.clone()),
            Err(_) => in_turn(),
        },
        Kind::Form => match Form::of(&definition.name, definition.version) {
            Ok(form) => step_of_form(classes, object, form.references, index, show),
            Err(_) => in_turn(),
        },
        Kind::Array | Kind::Enum => in_turn(),
    }
}

fn step_of_form(
    classes: &Classes,
    object: &Object,
    references: References,
    index: usize,
    show: impl Fn(&Value) -> String,
) -> String {
    let first = first_member(references);
    if index < first {
        return "comparator()".to_string();
    }
    match references {
        References::Named(names) => names.get(index).map_or_else(|| format!("[{index}]"), ToString::to_string),
        References::Entries | References::OrderedEntries => {
            let at = index - first;
            let key = show(&word(classes, object, first + (at & !1)));
            if at.is_multiple_of(2) { format!("key {key}") } else { format!("[{key}]") }
        }
        _ => format!("[{}]", index - first),
    }
}
