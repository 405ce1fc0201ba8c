//! Content of an object: fields, elements or entries, and the meaning of its data.

use cedrat::graph::{Object, Reference};

use super::bytes::Bytes;
use super::classes::{self, Classes, Definition, Kind, primitive_len};
use super::forms::{Cells, Form, Meaning, Order, References};
use super::words::{TEXT, Value, text, value};

/// Bytes of an object before its data.
const HEADER_LEN: usize = 8;

/// Where a collection's first cell would be named, if it has none.
const NONE: u32 = u32::MAX;

/// The first reference of a cell that is free.
const FREE: Reference = Reference::from_word(11 << 56);

/// The tag of a number of a cell.
const INTEGER: u8 = 5;

/// An object, decoded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Content {
    /// Its value without its references: the characters of a string, a date.
    pub(crate) meaning: Option<Meaning>,
    /// Comparator of its elements, if they do not have a natural order.
    pub(crate) comparator: Option<Value>,
    pub(crate) members: Members,
}

/// Members of an object.
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
    let (reference, at) = (object.references[index], place(object, index));
    match reference.as_value() {
        Some((TEXT, offset)) => text(&object.data, offset).map_or_else(
            || Value::Unreadable(format!("byte {at}: the string at {offset} of the data is not within them")),
            Value::Text,
        ),
        _ => value(classes, reference, at),
    }
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
        return Err(format!("byte {HEADER_LEN}: it is too short for {count} elements"));
    }
    let shown = (0..count.min(width)).map(|_| primitive_value(element, &mut bytes)).collect::<Result<_, _>>()?;
    Ok(Content { meaning: None, comparator: None, members: Members::Elements(shown, count) })
}

fn form(classes: &Classes, object: &Object, definition: &Definition, width: usize) -> Result<Content, String> {
    let form = Form::of(&definition.name, definition.version)?;
    let said = form.read(&object.data)?;
    let word = |index| word(classes, object, index);
    let named = |name: &str, value| Field { class: None, name: name.to_string(), descriptor: None, value };
    let (comparator, members) = match form.references {
        References::Named(names) => {
            let fields = names.iter().take(object.references.len()).enumerate();
            (None, Members::Fields(fields.map(|(at, name)| named(name, word(at))).collect()))
        }
        References::Cells(cells) => {
            let found = cells_in_order(object, cells, said.order)?;
            let shown = found.iter().take(width);
            let members = if cells.has_keys {
                Members::Entries(shown.map(|&at| (word(at), word(at + 1))).collect(), found.len())
            } else {
                Members::Elements(shown.map(|&at| word(at)).collect(), found.len())
            };
            let comparator = cells.has_comparator.then(|| word(0)).filter(|comparator| *comparator != Value::Null);
            (comparator, members)
        }
    };
    Ok(Content { meaning: said.value, comparator, members })
}

/// The first reference of each cell that counts.
fn cells_in_order(object: &Object, cells: Cells, order: Order) -> Result<Vec<usize>, String> {
    let (first, len, there) = (cells.first(), cells.len(), object.references.len());
    let Some(in_cells) = there.checked_sub(first).filter(|references| references.is_multiple_of(len)) else {
        return Err(format!("byte {}: {there} references are no whole number of entries", place(object, 0)));
    };
    let count = in_cells / len;
    let at = |cell: usize| first + cell * len;
    let fits = |wanted: u32| match (wanted as usize) <= count {
        true => Ok(wanted as usize),
        false => Err(format!("byte {}: {wanted} entries should follow, and there are {count}", place(object, first))),
    };
    match order {
        Order::InPlace => {
            let is_free = |at: &usize| object.references[*at] == FREE;
            Ok((0..count).map(at).filter(|at| !is_free(at)).collect())
        }
        Order::First(size) => Ok((0..fits(size)?).map(at).collect()),
        Order::Ring { from, len } => {
            let from = fits(from)?;
            Ok((0..fits(len)?).map(|number| at((from + number) % count)).collect())
        }
        Order::Linked(NONE) => Ok(Vec::new()),
        Order::Linked(first) => {
            let mut found = Vec::new();
            let mut next = Some(u64::from(first));
            while let Some(cell) = next {
                // More than there are come again and again.
                if cell >= count as u64 || found.len() == count || object.references[at(cell as usize)] == FREE {
                    let from = found.last().map_or(HEADER_LEN, |&at| place(object, at + len - 1));
                    return Err(format!("byte {from}: the next entry is {cell}, which is none, or was there already"));
                }
                let start = at(cell as usize);
                found.push(start);
                let word = object.references[start + len - 1];
                next = match word.as_value() {
                    None if word == Reference::NULL => None,
                    Some((INTEGER, number)) => Some(number),
                    _ => return Err(format!("byte {}: this is no number of an entry", place(object, start + len - 1))),
                };
            }
            Ok(found)
        }
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
            Ok(form) => step_of_form(classes, object, form, index, show),
            Err(_) => in_turn(),
        },
        Kind::Array | Kind::Enum => in_turn(),
    }
}

fn step_of_form(
    classes: &Classes,
    object: &Object,
    form: Form,
    index: usize,
    show: impl Fn(&Value) -> String,
) -> String {
    let in_turn = || format!("[{index}]");
    let cells = match form.references {
        References::Named(names) => return names.get(index).map_or_else(in_turn, ToString::to_string),
        References::Cells(cells) => cells,
    };
    let Some(behind) = index.checked_sub(cells.first()) else { return "comparator()".to_string() };
    let start = index - behind % cells.len();
    if cells.has_keys {
        let key = show(&word(classes, object, start));
        return if index == start { format!("key {key}") } else { format!("[{key}]") };
    }
    let found = form.read(&object.data).and_then(|said| cells_in_order(object, cells, said.order));
    let number = found.ok().and_then(|found| found.iter().position(|&at| at == start));
    number.map_or_else(in_turn, |number| format!("[{number}]"))
}

#[cfg(test)]
mod tests {
    use cedrat::graph::Identity;

    use super::super::classes::tests::definition;
    use super::*;

    /// Returns the members of an object of a form, with these data and references, as a string.
    fn members(form: &str, data: [u32; 2], words: &[u64]) -> String {
        let classes = Classes::new([Some(definition(5, 0, form, &[]))]);
        let references = words.iter().map(|&word| Reference::from_word(word)).collect();
        let object = Object { class: 1, data: data.map(u32::to_le_bytes).concat(), references };
        let shown = |value: &Value| match value {
            Value::Object(identity) => (identity.get() & 0xffff).to_string(),
            Value::Null => "-".to_string(),
            other => format!("{other:?}"),
        };
        match content(&classes, &object, 9) {
            Ok(Content { comparator, members: Members::Elements(elements, len), .. }) => {
                let all: Vec<String> = comparator.iter().chain(&elements).map(shown).collect();
                format!("{len}: {}", all.join(" "))
            }
            Ok(Content { comparator, members: Members::Entries(entries, len), .. }) => {
                let pairs = entries.iter().map(|(key, value)| format!("{}={}", shown(key), shown(value)));
                let all: Vec<String> = comparator.iter().map(shown).chain(pairs).collect();
                format!("{len}: {}", all.join(" "))
            }
            Ok(other) => panic!("{other:?}"),
            Err(why) => why,
        }
    }

    #[test]
    fn collections_have_the_entries_of_their_cells() {
        let id = |number: u64| Identity::new(1 << 16 | number).unwrap().get();
        let (free, next) = (FREE.word(), |number: u64| u64::from(INTEGER) << 56 | number);
        let of = |name: &str, data, words: &[u64]| members(&format!("java.util.{name}"), data, words);
        assert_eq!(of("ArrayList", [2, 0], &[id(1), 0, 0]), "2: 1 -");
        assert_eq!(of("ArrayDeque", [2, 3], &[id(3), id(9), id(1), id(2)]), "3: 1 2 3");
        assert_eq!(of("PriorityQueue", [1, 0], &[id(7), id(1), 0]), "1: 7 1");
        assert_eq!(of("HashSet", [0, 0], &[free, id(1), free, 0]), "2: 1 -");
        assert_eq!(of("HashMap", [0, 0], &[id(1), id(2), free, 0, id(3), 0]), "2: 1=2 3=-");
        assert_eq!(of("HashMap.parts", [2, 4096], &[id(1), 0, id(2)]), "3: 1 - 2");
        assert_eq!(of("HashMap.part", [0, 0], &[id(1), id(2), 0, 0]), "2: 1=2 -=-");
        assert_eq!(of("HashMap.part", [0x0062_6102, 0], &[12 << 56, id(2)]), r#"1: Text("ab")=2"#);
        assert_eq!(of("HashSet.part", [0, 0], &[id(1), id(2)]), "2: 1 2");
        assert_eq!(of("TreeMap", [0, 0], &[0, free, 0, id(1), id(2)]), "1: 1=2");
        assert_eq!(of("TreeSet", [0, 0], &[id(7), id(1)]), "1: 7 1");
        let linked = [id(3), 0, free, 0, id(1), next(3), id(2), next(0)];
        assert_eq!(of("LinkedList", [2, 0], &linked), "3: 1 2 3");
        assert_eq!(of("LinkedHashSet", [NONE, 0], &[free, 0]), "0: ");
        assert_eq!(of("LinkedHashMap", [1, 1], &[id(3), id(4), 0, id(1), id(2), next(0)]), "2: 1=2 3=4");
    }

    #[test]
    fn invalid_cells_are_reported() {
        let id = |number: u64| Identity::new(1 << 16 | number).unwrap().get();
        let next = |number: u64| u64::from(INTEGER) << 56 | number;
        let of = |name: &str, data, words: &[u64]| members(&format!("java.util.{name}"), data, words);
        let outside = "byte 16: the string at 6 of the data is not within them";
        assert_eq!(of("HashSet.part", [0, 9 << 16], &[12 << 56 | 6]), format!("1: Unreadable({outside:?})"));
        assert_eq!(of("HashMap", [0, 0], &[id(1)]), "byte 16: 1 references are no whole number of entries");
        assert_eq!(of("ArrayDeque", [0, 3], &[id(1)]), "byte 16: 3 entries should follow, and there are 1");
        let again = "byte 24: the next entry is 0, which is none, or was there already";
        assert_eq!(of("LinkedList", [0, 0], &[id(1), next(0)]), again);
        assert_eq!(
            of("LinkedList", [3, 0], &[id(1), 0]),
            "byte 8: the next entry is 3, which is none, or was there already"
        );
        assert_eq!(of("LinkedList", [0, 0], &[id(1), id(2)]), "byte 24: this is no number of an entry");
        assert_eq!(
            of("LinkedList", [0, 0], &[FREE.word(), 0]),
            "byte 8: the next entry is 0, which is none, or was there already"
        );
    }

    /// Reads arbitrary bytes.
    #[test]
    fn random_objects_are_read_or_refused() {
        let forms = [
            "ArrayList",
            "ArrayDeque",
            "LinkedHashMap",
            "TreeMap",
            "HashSet",
            "HashMap.part",
            "HashMap.parts",
            "BitSet",
            "Locale",
            "EnumMap",
            "UUID",
        ];
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        for _ in 0..20_000 {
            let form = forms[random(forms.len() as u64) as usize];
            let classes = Classes::new(
                [
                    definition(5, 0, &format!("java.util.{form}"), &[]),
                    definition(4, 0, "[I", &[]),
                    definition(1, 0, "a.B", &[("c", "J"), ("d", "Z"), ("e", "La/B;")]),
                ]
                .map(Some),
            );
            let data = (0..8 * random(4)).map(|_| if random(3) == 0 { random(256) as u8 } else { 0 }).collect();
            let mut words = Vec::new();
            for _ in 0..random(7) {
                let bits = random(30);
                words.push(Reference::from_word(random(14) << 56 | random(3) << bits));
            }
            let references = words;
            let object = Object { class: 1 + random(3) as u32, data, references };
            let _read_or_refused = content(&classes, &object, 5);
            for index in 0..object.references.len() {
                assert!(!step(&classes, &object, index, |_| "key".to_string()).is_empty());
            }
        }
    }
}
