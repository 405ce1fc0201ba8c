//! `cedrat page`: one page, whole or damaged, as text.

use cedrat::pages::{LayoutKind, PAGE_LEN, PageId, PageRef};
use cedrat_pages::layout::{Layout, Versioned};
use cedrat_pages::{Damaged, PAGE_FILE, PageAtHome, PageBuf};
use serde::Serialize;

use crate::arguments::Page;
use crate::disks::Disks;
use crate::info::digits;
use crate::look::Looked;
use crate::output::{self, Context, Failure, Outcome, grouped};
use crate::owners::Owners;
use crate::verify::recovered;

/// Maximum number of bytes of a part of a record that a line shows.
const SHOWN_LEN: usize = 60;

/// Number of bytes in a line of a dump.
const DUMP_LEN: usize = 16;

/// A page, as it is printed.
#[derive(Debug, Default, Serialize)]
struct Shown {
    ok: bool,
    page: u64,
    file: String,
    offset: u64,
    /// Whether the page is shown as recovery leaves it.
    is_recovered: bool,
    /// `whole`, `damaged` or `never written`.
    checksum: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<Damage>,
    /// Whether the page was ever written home, if that is known.
    was_written: Option<bool>,
    /// The offset of a whole copy in the double-write area.
    double_write_offset: Option<u64>,
    format: u16,
    layout: u16,
    layout_name: Option<String>,
    lsn: u64,
    /// The number that the page itself has.
    own_number: u64,
    layout_word: u64,
    /// None if the store could not be walked.
    owner: Option<String>,
    /// The reasons why it could not be walked, or is not whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
    /// The LSN that recovery leaves, if that is another one.
    recovered_lsn: Option<u64>,
    fields: Vec<Field>,
    /// Number of records.
    record_count: usize,
    records: Vec<Record>,
    /// All bytes, where the layout is unknown or damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
    #[serde(skip)]
    dump: Vec<String>,
}

/// Damage of the page, at a place in a file.
#[derive(Debug, Serialize)]
struct Damage {
    file: String,
    offset: u64,
    what: String,
}

/// A number of the page, by its name.
#[derive(Debug, Serialize)]
struct Field {
    name: &'static str,
    value: u64,
}

#[derive(Debug, Serialize)]
struct Record {
    slot: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    parts: Vec<Part>,
}

#[derive(Debug, Serialize)]
struct Part {
    name: String,
    /// Its bytes in hexadecimal digits.
    bytes: String,
    #[serde(skip)]
    text: String,
}

/// Prints a page.
pub(crate) fn page(arguments: &Page, disks: &Disks) -> Outcome {
    drop(Looked::at(&arguments.directory, disks)); // A damaged log or control file leaves the page readable.
    let page = PageId::new(arguments.page);
    crate::look::is_directory(&arguments.directory)?;
    let home = PageAtHome::look(&*disks.open(&arguments.directory)?, page).while_doing(format!("page {page}"))?;
    let mut shown = Shown {
        page: page.get(),
        file: home.file.clone(),
        offset: page.file_offset(),
        was_written: home.was_written,
        double_write_offset: home.copy_at,
        ..Shown::default()
    };
    let mut bytes = PageBuf::from_bytes(page, home.bytes.page_ref().bytes());
    let mut damage = home.damage;
    match walk(arguments, disks, page, &mut shown) {
        Ok(Some(recovered)) if arguments.recovered => {
            (shown.is_recovered, shown.recovered_lsn) = (true, None);
            (bytes, damage) = (recovered, None);
        }
        Ok(_) => {}
        Err(Failure(problem)) => shown.problems.push(format!("the owner of the page is unknown: {problem}")),
    }
    shown.header(&bytes.page_ref(), damage);
    shown.content(&bytes.page_ref(), arguments);
    shown.ok = shown.damage.is_none();
    report(&shown, arguments.json)
}

/// Recovers the store on an overlay, finds the owner of the page, and returns the page as it is then, unless it is damaged.
fn walk(arguments: &Page, disks: &Disks, page: PageId, shown: &mut Shown) -> Result<Option<PageBuf>, Failure> {
    let recovered = recovered(&arguments.directory, disks)?;
    let owners = Owners::of(&recovered.store, None, &mut shown.problems)?;
    shown.owner = Some(owners.name(owners.owner(page)));
    let Ok(view) = recovered.store.read(page) else { return Ok(None) };
    shown.recovered_lsn = Some(view.lsn().get());
    Ok(Some(PageBuf::from_bytes(page, view.bytes())))
}

impl Shown {
    fn header(&mut self, page: &PageRef<'_>, damage: Option<Damaged>) {
        let bytes = page.bytes();
        let is_zero = bytes.iter().all(|&byte| byte == 0);
        self.checksum = match &damage {
            Some(_) => "damaged",
            None if is_zero => "never written",
            None => "whole",
        };
        self.format = u16::from_le_bytes([bytes[4], bytes[5]]);
        self.layout = page.kind().0;
        self.lsn = page.lsn().get();
        self.own_number = u64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes"));
        self.layout_word = page.layout_word();
        self.recovered_lsn = self.recovered_lsn.filter(|&lsn| lsn != self.lsn);
        self.note_damage(damage);
    }

    /// Notes the first damage that was found.
    fn note_damage(&mut self, damage: Option<Damaged>) {
        let place = |damage: Damaged| Damage {
            file: self.file.clone(),
            offset: self.offset + u64::from(damage.byte),
            what: damage.what.to_owned(),
        };
        let damage = damage.map(place);
        self.damage = self.damage.take().or(damage);
    }

    /// Adds fields and records as far as the layout is known, or else all bytes.
    fn content(&mut self, page: &PageRef<'_>, arguments: &Page) {
        let registry = crate::registry();
        let layout = registry.layouts().get(page.kind());
        self.layout_name = layout.map(|layout| layout.name().to_owned());
        if let Some(layout) = layout {
            let read = self.records(layout, page, arguments.records).and_then(|()| layout.check(page));
            self.note_damage(read.err());
        }
        let is_empty = page.kind() == LayoutKind::NONE && self.checksum == "never written";
        let is_unshown = layout.is_none() || self.fields.is_empty() && self.records.is_empty();
        if arguments.bytes || self.damage.is_some() || is_unshown && !is_empty {
            self.bytes = Some(digits(page.bytes()));
            self.dump = dump(page.bytes());
        }
    }

    fn records(&mut self, layout: &dyn Layout, page: &PageRef<'_>, max: usize) -> Result<(), Damaged> {
        self.fields = layout.fields(page)?.into_iter().map(|(name, value)| Field { name, value }).collect();
        let version = |slot| {
            let versioned = Versioned::of(page).ok().filter(|_| page.kind() == LayoutKind::VERSIONED)?;
            versioned.version(slot).ok().map(|lsn| lsn.get())
        };
        layout.parts(page, &mut |slot, parts| {
            self.record_count += 1;
            if self.records.len() < max {
                let part = |&(name, bytes): &(&str, &[u8])| Part::of(name, bytes);
                let parts = parts.iter().map(part).collect();
                self.records.push(Record { slot: slot.0, version: version(slot), parts });
            }
        })
    }
}

impl Part {
    fn of(name: &str, bytes: &[u8]) -> Part {
        let shown = &bytes[..bytes.len().min(SHOWN_LEN)];
        let more = if bytes.len() > SHOWN_LEN { format!("… ({} bytes)", bytes.len()) } else { String::new() };
        Part { name: name.to_owned(), bytes: digits(bytes), text: format!("{name} {}{more}", shown.escape_ascii()) }
    }
}

/// Bytes in lines of hexadecimal digits and characters; equal lines are shown once.
fn dump(bytes: &[u8; PAGE_LEN]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut before: Option<&[u8]> = None;
    for (offset, line) in (0..).step_by(DUMP_LEN).zip(bytes.chunks(DUMP_LEN)) {
        if before == Some(line) {
            if lines.last().is_none_or(|last| last != "*") {
                lines.push("*".into());
            }
            continue;
        }
        before = Some(line);
        let words: Vec<String> = line.chunks(4).map(digits).collect();
        let is_shown = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
        let text: String = line.iter().map(|byte| if is_shown(byte) { char::from(*byte) } else { '.' }).collect();
        lines.push(format!("{offset:04x}  {}  {text}", words.join(" ")));
    }
    lines
}

fn report(shown: &Shown, json: bool) -> Outcome {
    if json {
        output::json(shown)?;
    } else {
        print(shown)?;
    }
    let damage = shown.damage.iter().map(|damage| {
        format!("{}, byte {}: page {} is damaged: {}", damage.file, damage.offset, shown.page, damage.what)
    });
    match damage.collect::<Vec<_>>()[..] {
        [] => Ok(()),
        ref damage => output::ended(damage),
    }
}

fn print(shown: &Shown) -> Outcome {
    let state = if shown.is_recovered { "as recovery leaves it" } else { "as it lies in the file" };
    let layout = shown.layout_name.as_deref().unwrap_or(if shown.layout == 0 { "none" } else { "unknown" });
    let mut rows = vec![
        ("page", format!("{} of {}, byte {}, {state}", shown.page, shown.file, grouped(shown.offset))),
        ("checksum", shown.checksum.to_owned()),
    ];
    if let Some(damage) = &shown.damage {
        rows.push(("damage", format!("byte {} of {PAGE_FILE}: {}", grouped(damage.offset), damage.what)));
    }
    if let Some(offset) = shown.double_write_offset {
        rows.push(("copy", format!("whole in {}, byte {}", cedrat_pages::DOUBLE_WRITE_FILE, grouped(offset))));
    }
    rows.push(("layout", format!("{}, {layout}; format {}", shown.layout, shown.format)));
    rows.push(("LSN", grouped(shown.lsn)));
    if let Some(lsn) = shown.recovered_lsn {
        rows.push(("recovery", format!("brings the page to LSN {}: see --recovered", grouped(lsn))));
    }
    if shown.own_number != shown.page && shown.checksum != "never written" {
        rows.push(("number", format!("{}, instead of {}", shown.own_number, shown.page)));
    }
    rows.push(("owner", shown.owner.clone().unwrap_or_else(|| "unknown".into())));
    rows.extend(shown.fields.iter().map(|field| ("", format!("{}: {}", field.name, field.value))));
    if shown.record_count > 0 {
        rows.push(("records", grouped(shown.record_count as u64)));
    }
    rows.extend(shown.records.iter().map(|record| ("", record.text())));
    if shown.records.len() < shown.record_count {
        rows.push(("", "…: see --records".into()));
    }
    for (index, line) in shown.dump.iter().enumerate() {
        rows.push((if index == 0 { "bytes" } else { "" }, line.clone()));
    }
    output::rows(&rows)?;
    shown.problems.iter().for_each(|problem| output::note(format_args!("note: {}", output::plain(problem))));
    Ok(())
}

impl Record {
    fn text(&self) -> String {
        let parts: Vec<&str> = self.parts.iter().map(|part| part.text.as_str()).collect();
        let version = self.version.map_or_else(String::new, |version| format!(" version {version}"));
        format!("{}{version}: {}", self.slot, parts.join(", "))
    }
}
