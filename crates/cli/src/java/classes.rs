//! Definitions of classes.

use std::collections::BTreeSet;

use serde::Serialize;

use super::bytes::Bytes;

/// The only format of definitions.
const FORMAT: u8 = 1;

/// Kind of the objects of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Object,
    Record,
    /// None: its constants are values.
    Enum,
    Array,
    /// As documented for a class of the JDK.
    Form,
}

/// A field, or a constant of an enum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// The field's type; of a constant empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) descriptor: String,
}

/// The definition of a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Definition {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Version of a form; for an object's class whether it is abstract, which nothing here depends on; else 0.
    pub(crate) version: u16,
    /// The number of another definition, or 0.
    pub(crate) superclass: u32,
    pub(crate) members: Vec<Member>,
}

impl Definition {
    fn parse(number: u32, bytes: &[u8]) -> Result<Definition, String> {
        let mut bytes = Bytes::new(bytes, 0);
        let (format, kind) = (bytes.u8()?, bytes.u8()?);
        if format != FORMAT {
            return Err(format!("it has format {format}, and this command knows {FORMAT}: use a newer one"));
        }
        let kind = match kind {
            1 => Kind::Object,
            2 => Kind::Record,
            3 => Kind::Enum,
            4 => Kind::Array,
            5 => Kind::Form,
            _ => return Err(format!("byte 1: the kind {kind} is not known: use a newer command")),
        };
        let (version, superclass, count) = (bytes.u16()?, bytes.u32()?, bytes.u32()?);
        if superclass >= number {
            return Err(format!("byte 4: its superclass is {superclass}, which is not defined before it"));
        }
        let short_text = |bytes: &mut Bytes<'_>| {
            let len = bytes.u16()?;
            bytes.utf8(len.into())
        };
        let name = short_text(&mut bytes)?;
        let mut members = Vec::new();
        for _ in 0..count {
            members.push(Member { name: short_text(&mut bytes)?, descriptor: short_text(&mut bytes)? });
        }
        if !bytes.is_empty() {
            return Err(format!("byte {}: it should end here", bytes.place()));
        }
        Ok(Definition { number, name, kind, version, superclass, members })
    }
}

/// A field of an object, where it lies, and the class that has it.
#[derive(Clone, Debug)]
pub(super) struct Field<'c> {
    pub(super) class: &'c Definition,
    pub(super) member: &'c Member,
}

impl Field<'_> {
    /// Bytes in the data, if the field is primitive.
    pub(super) fn len(&self) -> Option<usize> {
        primitive_len(&self.member.descriptor)
    }
}

/// Returns the number of bytes of a value of a primitive type.
pub(super) fn primitive_len(descriptor: &str) -> Option<usize> {
    match descriptor {
        "J" | "D" => Some(8),
        "I" | "F" => Some(4),
        "S" | "C" => Some(2),
        "B" | "Z" => Some(1),
        _ => None,
    }
}

/// All definitions of a graph; `None` of dropped classes.
#[derive(Debug)]
pub(crate) struct Classes(Vec<Option<Result<Definition, String>>>);

impl Classes {
    /// `definitions`: the first is that of class 1; `None` of a dropped class.
    pub(crate) fn new<B: AsRef<[u8]>>(definitions: impl IntoIterator<Item = Option<B>>) -> Classes {
        let numbered = (1..).zip(definitions);
        let parsed = |(number, bytes): (u32, Option<B>)| bytes.map(|bytes| Definition::parse(number, bytes.as_ref()));
        Classes(numbered.map(parsed).collect())
    }

    /// The definition of this number; or why there is none.
    pub(crate) fn get(&self, number: u32) -> Result<&Definition, String> {
        match (number as usize).checked_sub(1).and_then(|at| self.0.get(at)) {
            Some(Some(Ok(definition))) => Ok(definition),
            Some(Some(Err(why))) => Err(format!("the definition of class {number} is corrupt: {why}")),
            Some(None) => Err(format!("its class {number} was dropped")),
            None => Err(format!("its class is {number}, but there are {}", self.0.len())),
        }
    }

    /// Returns the valid definitions.
    pub(crate) fn known(&self) -> impl Iterator<Item = &Definition> {
        self.0.iter().flatten().flatten()
    }

    /// Returns the problems of the other definitions.
    pub(crate) fn problems(&self) -> Vec<String> {
        let defined = (1..).zip(&self.0).filter(|(_, definition)| definition.is_some());
        defined.filter_map(|(number, _)| self.get(number).err()).collect()
    }

    /// Whether there are definitions, and all are those of classes of Java.
    pub(crate) fn are_of_java(&self) -> bool {
        self.known().next().is_some() && self.problems().is_empty()
    }

    /// Returns the name of a class, or its number, where that is all that is known.
    pub(crate) fn name(&self, number: u32) -> String {
        self.get(number).map_or_else(|_| format!("class {number}"), |definition| readable(&definition.name))
    }

    /// The numbers of definitions that later ones of the same name have replaced.
    pub(crate) fn replaced(&self) -> BTreeSet<u32> {
        let mut newer = BTreeSet::new();
        let known: Vec<&Definition> = self.known().collect();
        let replaced = known.into_iter().rev().filter(|definition| !newer.insert(&definition.name));
        replaced.map(|definition| definition.number).collect()
    }

    /// The fields of a class's objects, in the order of the format; primitive ones and others apart.
    pub(super) fn fields(&self, number: u32) -> Result<(Vec<Field<'_>>, Vec<Field<'_>>), String> {
        let mut line = vec![self.get(number)?];
        while line[line.len() - 1].superclass != 0 {
            line.push(self.get(line[line.len() - 1].superclass)?);
        }
        let topmost_first = line.into_iter().rev();
        let all = topmost_first.flat_map(|class| class.members.iter().map(move |member| Field { class, member }));
        let (mut primitive, references): (Vec<Field<'_>>, Vec<Field<'_>>) =
            all.partition(|field| field.len().is_some());
        primitive.sort_by_key(|field| std::cmp::Reverse(field.len())); // it is stable
        Ok((primitive, references))
    }
}

/// The name of a class as one writes it: `bank.Account[]`.
pub(crate) fn readable(name: &str) -> String {
    let element = name.trim_start_matches('[');
    let dimensions = name.len() - element.len();
    if dimensions == 0 {
        return name.to_string();
    }
    let element = match element {
        "Z" => "boolean",
        "B" => "byte",
        "C" => "char",
        "S" => "short",
        "I" => "int",
        "J" => "long",
        "F" => "float",
        "D" => "double",
        object => object.strip_prefix('L').and_then(|object| object.strip_suffix(';')).unwrap_or(object),
    };
    format!("{element}{}", "[]".repeat(dimensions))
}

/// The type that a descriptor names, as one writes it.
pub(crate) fn readable_type(descriptor: &str) -> String {
    match descriptor.strip_prefix('L').and_then(|object| object.strip_suffix(';')) {
        Some(object) => object.replace('/', "."),
        None if descriptor.starts_with('[') => readable(&descriptor.replace('/', ".")),
        None => readable(&format!("[{descriptor}")).trim_end_matches("[]").to_string(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The bytes of a definition.
    pub(crate) fn definition(kind: u8, superclass: u32, name: &str, members: &[(&str, &str)]) -> Vec<u8> {
        let version = u8::from(kind == 5);
        let mut bytes = vec![FORMAT, kind, version, 0];
        bytes.extend(superclass.to_le_bytes());
        bytes.extend((members.len() as u32).to_le_bytes());
        let texts = members.iter().flat_map(|(name, descriptor)| [name, descriptor]);
        for text in [&name].into_iter().chain(texts) {
            bytes.extend((text.len() as u16).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes
    }

    #[test]
    fn fields_follow_the_order_of_the_format() {
        let all = [
            definition(1, 0, "a.Base", &[("flag", "Z"), ("next", "La/Base;"), ("sum", "J")]),
            definition(1, 1, "a.Sub", &[("ratio", "D"), ("count", "I"), ("flag", "S"), ("names", "[La/Base;")]),
        ];
        let classes = Classes::new(all.map(Some));
        let (primitive, references) = classes.fields(2).unwrap();
        let names = |fields: &[Field<'_>]| {
            fields.iter().map(|field| format!("{}.{}", field.class.name, field.member.name)).collect::<Vec<_>>()
        };
        assert_eq!(names(&primitive), ["a.Base.sum", "a.Sub.ratio", "a.Sub.count", "a.Sub.flag", "a.Base.flag"]);
        assert_eq!(names(&references), ["a.Base.next", "a.Sub.names"]);
    }

    #[test]
    fn invalid_class_file_names_offset() {
        let good = definition(1, 0, "a.B", &[("c", "I")]);
        let bad = [&good[..good.len() - 1], &[2, 1], &[1, 9], &[&good[..], &[0]].concat(), &[]];
        let bad = Classes::new(bad.map(|bytes| Some(bytes.to_vec())));
        let said = bad.problems();
        let expected = [
            "class 1 is corrupt: byte 22: 1 bytes should follow, and there are 0",
            "class 2 is corrupt: it has format 2",
            "class 3 is corrupt: byte 1: the kind 9",
            "class 4 is corrupt: byte 23: it should end here",
            "class 5 is corrupt: byte 0: 1 bytes should follow",
        ];
        assert_eq!(said.len(), expected.len());
        for (said, expected) in said.iter().zip(expected) {
            assert!(said.contains(expected), "{said}, not {expected}");
        }
        let itself = Classes::new([Some(definition(1, 1, "a.B", &[]))]);
        assert!(itself.problems()[0].contains("byte 4: its superclass is 1"), "{:?}", itself.problems());
        assert_eq!(itself.get(7).unwrap_err(), "its class is 7, but there are 1");
    }

    #[test]
    fn dropped_class_is_accepted() {
        let classes = Classes::new([None, Some(definition(1, 0, "a.B", &[]))]);
        assert_eq!(classes.problems(), [""; 0]);
        assert_eq!(classes.get(1).unwrap_err(), "its class 1 was dropped");
        assert_eq!(classes.known().map(|definition| definition.number).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn names_are_written_as_in_programs() {
        assert_eq!(
            ["bank.Account", "[[I", "[Lbank.Account;"].map(readable),
            ["bank.Account", "int[][]", "bank.Account[]"]
        );
        assert_eq!(["J", "La/B;", "[[Z", "[La/B;"].map(readable_type), ["long", "a.B", "boolean[][]", "a.B[]"]);
    }

    #[test]
    fn later_definition_replaces_earlier_one() {
        let all = ["a.B", "a.C", "a.B"].map(|name| definition(1, 0, name, &[]));
        assert_eq!(Classes::new(all.map(Some)).replaced().into_iter().collect::<Vec<_>>(), [1]);
    }
}
