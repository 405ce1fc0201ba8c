//! Content of a graph of Java: definitions of classes, references that are values, and the bytes of objects
//! (docs/formats/java-objects.md). Only reads, and only of single objects: no store, no output.

mod bytes;
mod classes;
mod forms;
mod object;
mod words;

pub(crate) use classes::{Classes, Definition, Kind, Member, readable, readable_type};
pub(crate) use forms::Meaning;
pub(crate) use object::{Content, Members, content, step};
pub(crate) use words::{CONSTANT, Value, value};
