//! References that are no objects of the store.

use cedrat::graph::{Identity, Reference};

use super::classes::{Classes, Kind};

/// The objects that each virtual machine has once, by their numbers.
const ONCE: [&str; 20] = [
    "Collections.emptyList()",
    "Collections.emptySet()",
    "Collections.emptyMap()",
    "Collections.emptyNavigableSet()",
    "Collections.emptyNavigableMap()",
    "List.of()",
    "Set.of()",
    "Map.of()",
    "Optional.empty()",
    "Comparator.naturalOrder()",
    "Collections.reverseOrder()",
    "String.CASE_INSENSITIVE_ORDER",
    "ZoneOffset.UTC",
    "Locale.ROOT",
    "BigInteger.ZERO",
    "BigInteger.ONE",
    "BigDecimal.ZERO",
    "BigDecimal.ONE",
    "Duration.ZERO",
    "Period.ZERO",
];

/// Tag of the references to strings within the data of their own object.
pub(crate) const TEXT: u8 = 12;

/// Tag of the references to enum constants, which name the class of the enum.
pub(crate) const CONSTANT: u8 = 9;

/// Content of a field, an element, a key or a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Boolean(bool),
    /// A UTF-16 unit, maybe half of a character.
    Character(u16),
    Integer(i64),
    Float(f32),
    Double(f64),
    /// An object that is a number, a truth value or a character: its class, and what it says.
    Boxed(&'static str, Box<Value>),
    /// The class, and the constant's name.
    Constant(String, String),
    /// An object that each virtual machine has once.
    Once(&'static str),
    Object(Identity),
    /// A string within the data of the object that has the reference.
    Text(String),
    /// Nothing at all: the cell of a collection is free.
    Free,
    /// Reason for which it cannot be read.
    Unreadable(String),
}

/// Returns the string at an offset of the data of an object: its length in a byte, and a byte for each character.
pub(crate) fn text(data: &[u8], offset: u64) -> Option<String> {
    let behind = data.get(usize::try_from(offset).ok()?..)?;
    let (&len, characters) = behind.split_first()?;
    Some(characters.get(..usize::from(len))?.iter().map(|&byte| char::from(byte)).collect())
}

/// Returns the value of a reference, which begins at byte `at` of its object. One to a string within that object is not
/// known.
pub(crate) fn value(classes: &Classes, reference: Reference, at: usize) -> Value {
    let word = reference.word();
    let unreadable = |why: String| Value::Unreadable(format!("byte {at}: the reference {word:#x} {why}"));
    let Some((tag, payload)) = reference.as_value() else {
        return match (word, reference.identity()) {
            (0, _) => Value::Null,
            (_, Some(identity)) => Value::Object(identity),
            (_, None) => unreadable("leads to no place that an object can have".to_string()),
        };
    };
    let boxed = |class, value| Value::Boxed(class, Box::new(value));
    match tag {
        1 => boxed("java.lang.Boolean", Value::Boolean(payload != 0)),
        2 => boxed("java.lang.Byte", Value::Integer((payload as i8).into())),
        3 => boxed("java.lang.Character", Value::Character(payload as u16)),
        4 => boxed("java.lang.Short", Value::Integer((payload as i16).into())),
        5 => boxed("java.lang.Integer", Value::Integer((payload as i32).into())),
        // 56 bits with their sign.
        6 => boxed("java.lang.Long", Value::Integer((word << 8).cast_signed() >> 8)),
        7 => boxed("java.lang.Float", Value::Float(f32::from_bits(payload as u32))),
        8 => boxed("java.lang.Double", Value::Double(f64::from_bits(payload << 8))),
        CONSTANT => match constant(classes, payload) {
            Ok((class, name)) => Value::Constant(class, name),
            Err(why) => unreadable(why),
        },
        10 => match ONCE.get(payload as usize) {
            Some(name) => Value::Once(name),
            None => unreadable(format!("is number {payload} of the objects that there are once: use a newer command")),
        },
        11 if payload == 0 => Value::Free,
        _ => unreadable("has a tag that is not known: use a newer command".to_string()),
    }
}

fn constant(classes: &Classes, payload: u64) -> Result<(String, String), String> {
    let (class, number) = ((payload >> 24) as u32, payload as usize & 0xff_ffff);
    let definition = classes.get(class).map_err(|why| format!("is a constant: {why}"))?;
    match definition.members.get(number) {
        Some(member) if definition.kind == Kind::Enum => Ok((definition.name.clone(), member.name.clone())),
        _ => Err(format!("is constant {number} of {}, which has none of that number", definition.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::classes::tests::definition;
    use super::*;

    #[test]
    fn words_say_what_the_format_says() {
        let classes = Classes::new([Some(definition(3, 0, "a.Color", &[("RED", ""), ("GREEN", "")]))]);
        let said = |word| value(&classes, Reference::from_word(word), 8);
        let boxed = |class, value| Value::Boxed(class, Box::new(value));
        assert_eq!(said(0), Value::Null);
        assert_eq!(said(7 << 16 | 3), Value::Object(Identity::new(7 << 16 | 3).unwrap()));
        assert_eq!(said(1 << 56 | 1), boxed("java.lang.Boolean", Value::Boolean(true)));
        assert_eq!(said(2 << 56 | 0xff), boxed("java.lang.Byte", Value::Integer(-1)));
        assert_eq!(said(3 << 56 | 0xd800), boxed("java.lang.Character", Value::Character(0xd800)));
        assert_eq!(said(4 << 56 | 0x8000), boxed("java.lang.Short", Value::Integer(-32768)));
        assert_eq!(said(5 << 56 | 0xffff_fffe), boxed("java.lang.Integer", Value::Integer(-2)));
        assert_eq!(said(6 << 56 | ((1 << 56) - 3)), boxed("java.lang.Long", Value::Integer(-3)));
        assert_eq!(said(7 << 56 | u64::from(1.5f32.to_bits())), boxed("java.lang.Float", Value::Float(1.5)));
        assert_eq!(said(8 << 56 | (-2.5f64).to_bits() >> 8), boxed("java.lang.Double", Value::Double(-2.5)));
        assert_eq!(said(9 << 56 | 1 << 24 | 1), Value::Constant("a.Color".to_string(), "GREEN".to_string()));
        assert_eq!(said(10 << 56 | 19), Value::Once("Period.ZERO"));
        assert_eq!(said(11 << 56), Value::Free);
        for word in [3, 9 << 56 | 1 << 24 | 2, 9 << 56 | 2 << 24, 10 << 56 | 20, 11 << 56 | 1, 12 << 56, 0xff << 56] {
            let Value::Unreadable(why) = said(word) else { panic!("{word:#x}: {:?}", said(word)) };
            assert!(why.starts_with(&format!("byte 8: the reference {word:#x} ")), "{why}");
        }
    }
}
