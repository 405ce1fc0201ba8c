//! Schemas of arguments: numbers that differ if the same bytes would be decoded differently.
//!
//! The log contains arguments without their types. An operation that reads `u64` where it wrote `i64` finds a number,
//! and redoes a wrong one. So the control file keeps a schema with each name, and an opening compares them (E6.6). The
//! catalogue of structures keeps one with each name, too.
//!
//! A schema is computed by deserialising a value of the type from dummy data, and recording the requests of the type.
//! Types with the same encoding have one schema: all unsigned numbers of more than a byte, a structure and the tuple of
//! its fields. Names of fields do not count. For an enumeration only the first variant counts, so that variants can be
//! appended.

use serde::de::value::{Error, U32Deserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

use cedrat_wal::{Control, Log};

use crate::error::{OpenError, Result};
use crate::registry::{Numbers, Registry};
use cedrat_sync::planted;

/// Maximum depth to which arguments are followed: a type may contain itself.
const DEPTH_MAX: u32 = 48;

/// Maximum number of marks of a schema.
const MARKS_MAX: usize = 4096;

/// Returns the schema of type `T`, a number that differs if the same bytes would be decoded differently; never 0, which
/// stands for an unknown one.
///
/// Types with the same encoding have one schema, as `u32` and `u64` do. Fields have no names in it, and of an enumeration
/// only the first variant counts: others may be appended.
pub fn of<T: DeserializeOwned>() -> u32 {
    let mut marks = Vec::new();
    // A type that refuses the numbers offered to it is recorded up to that point.
    if T::deserialize(Shape { marks: &mut marks, depth: 0 }).is_err() {
        marks.push(b'?');
    }
    // FNV-1a.
    let hash = marks.iter().fold(0x811c_9dc5_u32, |hash, &mark| (hash ^ u32::from(mark)).wrapping_mul(0x0100_0193));
    hash.max(1)
}

/// Binds a registry to the names of a control file. Refuses it if the arguments of an operation differ from those in
/// the log.
pub(crate) fn bind(registry: &Registry, control: &Control) -> Result<Numbers> {
    for entry in registry.entries() {
        let number = control.names.iter().position(|name| name == entry.name);
        let noted = number.and_then(|number| control.schemas.get(number)).copied().unwrap_or(0);
        if noted != 0 && entry.schema != 0 && noted != entry.schema && !planted!("schemas_not_compared") {
            return Err(OpenError::OtherArguments { name: entry.name.into() }.into());
        }
    }
    Ok(Numbers::bind(registry, &control.names))
}

/// Records the schemas of all operations of `registry` in the control file, where they are missing.
pub(crate) fn note(registry: &Registry, log: &Log) -> Result<()> {
    let schemas: Vec<(&str, u32)> = registry.entries().iter().map(|entry| (entry.name, entry.schema)).collect();
    Ok(log.note_schemas(&schemas)?)
}

/// A deserialiser that offers a dummy value for every request, and records the request.
struct Shape<'a> {
    marks: &'a mut Vec<u8>,
    depth: u32,
}

impl Shape<'_> {
    fn mark(&mut self, mark: u8) -> std::result::Result<(), Error> {
        if self.marks.len() == MARKS_MAX || self.depth > DEPTH_MAX {
            return Err(Error::custom("the type is too large to be followed"));
        }
        self.marks.push(mark);
        Ok(())
    }

    fn deeper(&mut self) -> Shape<'_> {
        Shape { marks: self.marks, depth: self.depth + 1 }
    }

    fn is_deep(&self) -> bool {
        self.depth >= DEPTH_MAX
    }
}

macro_rules! scalars {
    ($($ask:ident $mark:literal $visit:ident $value:expr;)*) => {$(
        fn $ask<V: Visitor<'de>>(mut self, visitor: V) -> std::result::Result<V::Value, Error> {
            self.mark($mark)?;
            visitor.$visit($value)
        }
    )*};
}

macro_rules! refused {
    ($($ask:ident)*) => {$(
        fn $ask<V: Visitor<'de>>(self, _: V) -> std::result::Result<V::Value, Error> {
            Err(Error::custom("the encoding has no types"))
        }
    )*};
}

impl<'de> Deserializer<'de> for Shape<'_> {
    type Error = Error;

    scalars! {
        deserialize_bool b'b' visit_bool true;
        deserialize_i8 b'c' visit_i8 1;
        deserialize_i16 b'z' visit_i16 1;
        deserialize_i32 b'z' visit_i32 1;
        deserialize_i64 b'z' visit_i64 1;
        deserialize_i128 b'z' visit_i128 1;
        deserialize_u8 b'u' visit_u8 1;
        deserialize_u16 b'v' visit_u16 1;
        deserialize_u32 b'v' visit_u32 1;
        deserialize_u64 b'v' visit_u64 1;
        deserialize_u128 b'v' visit_u128 1;
        deserialize_f32 b'f' visit_f32 1.0;
        deserialize_f64 b'd' visit_f64 1.0;
        deserialize_char b'h' visit_char 'a';
        deserialize_str b's' visit_str "a";
        deserialize_string b's' visit_str "a";
        deserialize_bytes b'y' visit_bytes b"a";
        deserialize_byte_buf b'y' visit_bytes b"a";
    }

    refused! { deserialize_any deserialize_identifier deserialize_ignored_any }

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> std::result::Result<V::Value, Error> {
        if self.is_deep() {
            return visitor.visit_none();
        }
        self.mark(b'o')?;
        visitor.visit_some(self.deeper())
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> std::result::Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> std::result::Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        visitor: V,
    ) -> std::result::Result<V::Value, Error> {
        visitor.visit_newtype_struct(self.deeper())
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> std::result::Result<V::Value, Error> {
        self.mark(b'q')?;
        let left = usize::from(!self.is_deep());
        let value = visitor.visit_seq(Parts { shape: self.deeper(), left })?;
        self.mark(b')')?;
        Ok(value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(mut self, len: usize, visitor: V) -> std::result::Result<V::Value, Error> {
        visitor.visit_seq(Parts { shape: self.deeper(), left: len })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> std::result::Result<V::Value, Error> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> std::result::Result<V::Value, Error> {
        self.deserialize_tuple(fields.len(), visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> std::result::Result<V::Value, Error> {
        self.mark(b'm')?;
        let left = usize::from(!self.is_deep());
        let value = visitor.visit_map(Parts { shape: self.deeper(), left })?;
        self.mark(b')')?;
        Ok(value)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> std::result::Result<V::Value, Error> {
        self.mark(b'e')?;
        let value = visitor.visit_enum(self.deeper())?;
        self.mark(b')')?;
        Ok(value)
    }
}

/// The elements of a sequence, or the fields of a structure.
struct Parts<'a> {
    shape: Shape<'a>,
    left: usize,
}

impl<'de> SeqAccess<'de> for Parts<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> std::result::Result<Option<T::Value>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(self.shape.deeper()).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> MapAccess<'de> for Parts<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> std::result::Result<Option<K::Value>, Error> {
        self.next_element_seed(seed)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> std::result::Result<T::Value, Error> {
        seed.deserialize(self.shape.deeper())
    }
}

impl<'de, 'a> EnumAccess<'de> for Shape<'a> {
    type Error = Error;
    type Variant = Shape<'a>;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> std::result::Result<(T::Value, Shape<'a>), Error> {
        let first: U32Deserializer<Error> = 0_u32.into_deserializer();
        Ok((seed.deserialize(first)?, self))
    }
}

impl<'de> VariantAccess<'de> for Shape<'_> {
    type Error = Error;

    fn unit_variant(self) -> std::result::Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> std::result::Result<T::Value, Error> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> std::result::Result<V::Value, Error> {
        self.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> std::result::Result<V::Value, Error> {
        self.deserialize_tuple(fields.len(), visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its shape is looked at")]
    struct Named {
        number: u64,
        words: Vec<String>,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its shape is looked at")]
    enum Old {
        Add(u64),
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its shape is looked at")]
    enum New {
        Add(u64),
        Take(i64),
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its shape is looked at")]
    struct Chain {
        next: Option<Box<Chain>>,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its shape is looked at")]
    enum Tree {
        Node(Box<Tree>, Box<Tree>),
    }

    #[test]
    fn same_encodings_have_one_schema() {
        assert_eq!(of::<Named>(), of::<(u32, Vec<String>)>());
        assert_eq!(of::<Old>(), of::<New>());
        assert_eq!(of::<std::num::NonZeroU64>(), of::<u64>());
    }

    #[test]
    fn other_encodings_have_other_schemas() {
        let all = [
            of::<u64>(),
            of::<i64>(),
            of::<u8>(),
            of::<(u64, u64)>(),
            of::<Vec<u64>>(),
            of::<(Vec<u64>, u64)>(),
            of::<Option<u64>>(),
            of::<BTreeMap<u64, u64>>(),
            of::<Old>(),
            of::<String>(),
            of::<()>(),
            of::<f64>(),
        ];
        for (at, schema) in all.iter().enumerate() {
            assert!(!all[..at].contains(schema) && *schema != 0, "{at}");
        }
    }

    #[test]
    fn types_that_contain_themselves_end() {
        assert_ne!(of::<Chain>(), of::<Tree>());
    }
}
