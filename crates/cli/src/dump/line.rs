//! The lines of a dump (docs/formats/dump.md): JSON objects, each with a checksum of all lines so far.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::info::digits;
use crate::output::{Failure, fail};

/// The version of the format that this program writes, and the only one that it reads.
pub(super) const VERSION: u32 = 1;

/// Text before the checksum of a line, and after it.
const CHECKSUM: &str = ",\"crc\":\"";
const END: &str = "\"}";

/// Number of bytes that the checksum and the text around it take.
const TAIL_LEN: usize = CHECKSUM.len() + 8 + END.len();

/// Bytes, as hexadecimal digits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hex(pub(super) Vec<u8>);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&digits(&self.0))
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Hex, D::Error> {
        let text = String::deserialize(from)?;
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
        let is_hex = text.len().is_multiple_of(2) && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let bytes = text.as_bytes().chunks(2).map(byte).collect::<Option<Vec<u8>>>().filter(|_| is_hex);
        bytes.map(Hex).ok_or_else(|| serde::de::Error::custom("these are no bytes in hexadecimal digits"))
    }
}

/// A word of 64 bits, as sixteen hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&format!("{:016x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Word, D::Error> {
        let text = String::deserialize(from)?;
        let word = u64::from_str_radix(&text, 16).ok().filter(|_| text.len() == 16 && !text.starts_with('+'));
        word.map(Word).ok_or_else(|| serde::de::Error::custom("this is no word of sixteen hexadecimal digits"))
    }
}

/// The kinds of structures that a dump has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum DumpedKind {
    HashTable,
    ArrayList,
    List,
    PageList,
    Records,
    Objects,
    Graph,
}

impl DumpedKind {
    /// The name of the kind in the format.
    pub(super) fn name(self) -> &'static str {
        match self {
            DumpedKind::HashTable => "hash-table",
            DumpedKind::ArrayList => "array-list",
            DumpedKind::List => "list",
            DumpedKind::PageList => "page-list",
            DumpedKind::Records => "records",
            DumpedKind::Objects => "objects",
            DumpedKind::Graph => "graph",
        }
    }
}

/// A line of a dump.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub(super) enum Line {
    /// The first line.
    Dump { version: u32, store: Hex, lsn: u64 },
    /// A structure begins.
    Structure {
        name: String,
        kind: DumpedKind,
        schema: u32,
        /// The length of the elements of an array list.
        #[serde(skip_serializing_if = "Option::is_none")]
        element_bytes: Option<u16>,
    },
    /// An entry of a hash table.
    Entry { key: Hex, value: Hex },
    /// An element of a list or an array list, in their order.
    Element { bytes: Hex },
    /// A record or an object, with its page and slot.
    Record { at: String, bytes: Hex },
    /// A class of a graph; without a definition, a dropped one.
    Class { number: u32, definition: Option<Hex> },
    /// An object of a graph.
    Node { identity: Word, class: u32, data: Hex, references: Vec<Word> },
    /// A root of a graph.
    Root { name: String, to: Word },
    /// A heap begins.
    Heap {
        name: String,
        file: String,
        bytes: u64,
        bytes_max: u64,
        chunk_bytes: u64,
        blocks: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        address: Option<u64>,
    },
    /// Words of a heap that are not all zero.
    Words { offset: u64, words: Vec<Word> },
    /// The end of a structure or a heap, with the number of its lines.
    End { lines: u64 },
    /// A structure that is not in the dump.
    Skipped { name: String, kind: String },
    /// The last line.
    EndOfDump { structures: u64, heaps: u64, skipped: u64 },
}

impl Line {
    /// The name of the line in the format.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Line::Dump { .. } => "dump",
            Line::Structure { .. } => "structure",
            Line::Entry { .. } => "entry",
            Line::Element { .. } => "element",
            Line::Record { .. } => "record",
            Line::Class { .. } => "class",
            Line::Node { .. } => "node",
            Line::Root { .. } => "root",
            Line::Heap { .. } => "heap",
            Line::Words { .. } => "words",
            Line::End { .. } => "end",
            Line::Skipped { .. } => "skipped",
            Line::EndOfDump { .. } => "end-of-dump",
        }
    }
}

/// A dump that is being written.
pub(super) struct Writer<W> {
    to: W,
    checksum: u32,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(to: W) -> Writer<W> {
        Writer { to, checksum: 0 }
    }

    pub(super) fn line(&mut self, line: &Line) -> io::Result<()> {
        let json = serde_json::to_string(line)?;
        let body = json.strip_suffix('}').expect("a line is an object");
        self.checksum = crc32c::crc32c_append(self.checksum, body.as_bytes());
        writeln!(self.to, "{body}{CHECKSUM}{:08x}{END}", self.checksum)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// A dump that is being read.
pub(super) struct Reader<R> {
    from: R,
    checksum: u32,
    /// The number of the last line that was read.
    number: u64,
}

impl<R: BufRead> Reader<R> {
    pub(super) fn new(from: R) -> Reader<R> {
        Reader { from, checksum: 0, number: 0 }
    }

    /// Refuses the last line that was read.
    pub(super) fn refuse<T>(&self, why: impl std::fmt::Display) -> Result<T, Failure> {
        fail(format!("line {} of the dump: {why}", self.number))
    }

    /// Reads a line; `None` at the end of the file.
    pub(super) fn line(&mut self) -> Result<Option<Line>, Failure> {
        let mut bytes = Vec::new();
        self.from.read_until(b'\n', &mut bytes)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        if bytes.pop() != Some(b'\n') {
            return self.refuse("the file ends within this line");
        }
        let Ok(text) = String::from_utf8(bytes) else { return self.refuse("it is not UTF-8") };
        if self.number == 1 {
            self.check_version(&text)?;
        }
        let parts = text.len().checked_sub(TAIL_LEN).and_then(|at| text.split_at_checked(at));
        let checksum = |tail: &str| tail.strip_prefix(CHECKSUM)?.strip_suffix(END).map(str::to_owned);
        let Some((body, checksum)) = parts.and_then(|(body, tail)| Some((body, checksum(tail)?))) else {
            return self.refuse("it does not end with a checksum");
        };
        self.checksum = crc32c::crc32c_append(self.checksum, body.as_bytes());
        if checksum != format!("{:08x}", self.checksum) {
            return self.refuse("its checksum does not match: it was changed, or lines before it are missing");
        }
        match serde_json::from_str(&format!("{body}}}")) {
            Ok(line) => Ok(Some(line)),
            Err(error) => self.refuse(format_args!("it is invalid: {error}")),
        }
    }

    /// Refuses another version before anything else of it is read.
    fn check_version(&self, text: &str) -> Result<(), Failure> {
        let first: Result<serde_json::Value, _> = serde_json::from_str(text);
        let first = first.ok().filter(|first| first["line"] == "dump");
        match first.as_ref().map(|first| first["version"].as_u64()) {
            None => self.refuse("this is no dump of a store"),
            Some(version) if version == Some(VERSION.into()) => Ok(()),
            Some(version) => {
                let version = version.map_or_else(|| "no".to_owned(), |version| version.to_string());
                self.refuse(format_args!("the dump has version {version}, and this program reads version {VERSION}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(lines: &[Line]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new());
        lines.iter().for_each(|line| writer.line(line).expect("memory"));
        writer.to
    }

    fn read(bytes: &[u8]) -> Result<Vec<Line>, String> {
        let mut reader = Reader::new(bytes);
        let mut lines = Vec::new();
        while let Some(line) = reader.line().map_err(|Failure(why)| why)? {
            lines.push(line);
        }
        Ok(lines)
    }

    fn example() -> Vec<Line> {
        vec![
            Line::Dump { version: VERSION, store: Hex(vec![7; 16]), lsn: 9 },
            Line::Structure { name: "a\n\"ü".into(), kind: DumpedKind::ArrayList, schema: 3, element_bytes: Some(8) },
            Line::Element { bytes: Hex(vec![0, 255]) },
            Line::Node { identity: Word(1), class: 2, data: Hex(vec![]), references: vec![Word(u64::MAX), Word(0)] },
            Line::EndOfDump { structures: 1, heaps: 0, skipped: 0 },
        ]
    }

    #[test]
    fn lines_survive_encoding() {
        let lines = example();
        assert_eq!(read(&written(&lines)), Ok(lines));
    }

    #[test]
    fn names_are_those_of_the_format() {
        use DumpedKind::{ArrayList, Graph, HashTable, List, Objects, PageList, Records};
        for kind in [HashTable, ArrayList, List, PageList, Records, Objects, Graph] {
            assert_eq!(serde_json::to_string(&kind).expect("a string"), format!("\"{}\"", kind.name()));
        }
        for line in example() {
            let json = serde_json::to_value(&line).expect("an object");
            assert_eq!(json["line"], line.name());
        }
    }

    #[test]
    fn changed_bytes_are_refused_by_line() {
        let bytes = written(&example());
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let line = 1 + bytes[..at].iter().filter(|&&byte| byte == b'\n').count();
            let why = read(&changed).expect_err("a byte was changed");
            // A line that lost its end is joined with the next one.
            assert!(why.starts_with(&format!("line {line} of the dump: ")), "{at}: {why}");
        }
    }

    #[test]
    fn missing_lines_are_refused_by_number() {
        let bytes = written(&example());
        let lines: Vec<&[u8]> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
        let why = read(&[lines[0], lines[2]].concat()).expect_err("a line is missing");
        assert!(why.starts_with("line 2 of the dump: its checksum does not match"), "{why}");
        let cut = read(&bytes[..bytes.len() - 1]).expect_err("it is cut off");
        assert!(cut.contains("the file ends within this line"), "{cut}");
    }

    #[test]
    fn other_version_is_refused_first() {
        let newer = "{\"line\":\"dump\",\"version\":2,\"unknown\":[]}\n";
        let why = read(newer.as_bytes()).expect_err("it is newer");
        assert!(why.contains("line 1 of the dump: the dump has version 2"), "{why}");
        assert!(read(b"{}\n").expect_err("no dump").contains("this is no dump of a store"));
    }
}
