//! The logical forms of the JDK's classes: what their data say, and what their references are.

use super::bytes::Bytes;

/// Meaning of the references of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum References {
    /// Each by a name of its own.
    Named(&'static [&'static str]),
    Cells(Cells),
}

/// References of a collection: those of an entry, its cell, one behind the other, and the cells too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cells {
    /// Before them there is one to a comparator.
    pub(super) has_comparator: bool,
    /// A key and a value, or one element.
    pub(super) has_keys: bool,
    /// Behind that the number of the next cell.
    pub(super) has_next: bool,
}

impl Cells {
    const ELEMENTS: Cells = Cells { has_comparator: false, has_keys: false, has_next: false };
    const ENTRIES: Cells = Cells { has_keys: true, ..Cells::ELEMENTS };

    /// References before the cells.
    pub(super) fn first(self) -> usize {
        usize::from(self.has_comparator)
    }

    /// References of a cell.
    pub(super) fn len(self) -> usize {
        1 + usize::from(self.has_keys) + usize::from(self.has_next)
    }
}

/// Which cells count, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// All that are not free, as they lie there.
    InPlace,
    /// The given number of first cells.
    First(u32),
    /// Number of cells from a place on; the first place follows the last.
    Ring { from: u32, len: u32 },
    /// From this one on, each says which is next.
    Linked(u32),
}

/// Meaning of the data of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Data {
    Nothing,
    Characters,
    Long,
    Double,
    BigInteger,
    BigDecimal,
    OptionalInt,
    OptionalLong,
    OptionalDouble,
    Uuid,
    Text,
    Year,
    YearMonth,
    ZonedDateTime,
    Locale,
    Pattern,
    Boolean,
    Int,
    BitSet,
    Random,
    /// Number of used cells.
    Size,
    /// Number of entries of all parts, that of buckets, and what depends on hash codes.
    Parts,
    Ring,
    First,
    FirstAndAccess,
    Lambda,
    /// A static final field.
    Constant,
    /// Maximum number of elements, and whether threads wait in their order.
    Capacity,
    /// Class and fields of an exception.
    Throwable,
    StackTraceElement,
}

/// A form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    data: Data,
    pub(super) references: References,
}

/// Meaning of the data of an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Said {
    /// The object's value, if it has one that data can say.
    pub(super) value: Option<Meaning>,
    /// Order of a Java collection.
    pub(super) order: Order,
}

/// Value of an object without its references.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Meaning {
    /// Characters.
    Text(String),
    /// As programs print it.
    Other(String),
}

const NONE: References = References::Named(&[]);
const KEY_AND_VALUE: References = References::Named(&["getKey()", "getValue()"]);
const WRAPPED: References = References::Named(&["wrapped"]);
const CONVERTED: References = References::Named(&["converted"]);

impl Form {
    /// The form of this name and version.
    pub(super) fn of(name: &str, version: u16) -> Result<Form, String> {
        if version != 1 {
            return Err(format!("version {version} of the form {name} is not known: use a newer command"));
        }
        let short = ["java.util.", "java.lang.", "java.time."].iter().find_map(|package| name.strip_prefix(package));
        let (data, references) = short
            .and_then(|short| value_form(short).map(|data| (data, NONE)).or_else(|| other_form(short)))
            .or(match name {
                "java.math.BigInteger" => Some((Data::BigInteger, NONE)),
                "java.math.BigDecimal" => Some((Data::BigDecimal, NONE)),
                "java.net.URI" | "java.net.URL" | "java.nio.file.Path" | "java.io.File" | "java.io.Serializable" => {
                    Some((Data::Text, NONE))
                }
                _ if name.starts_with("cedrat.Converted:") => Some((Data::Nothing, CONVERTED)),
                _ => None,
            })
            .ok_or_else(|| format!("the form {name} is not known: use a newer command"))?;
        Ok(Form { data, references })
    }

    /// Interprets these data, which begin at byte 8 of their object.
    pub(super) fn read(&self, data: &[u8]) -> Result<Said, String> {
        let mut bytes = Bytes::new(data, 8);
        let order = match self.data {
            Data::Size => Order::First(bytes.u32()?),
            Data::Ring => Order::Ring { from: bytes.u32()?, len: bytes.u32()? },
            Data::First | Data::FirstAndAccess => Order::Linked(bytes.u32()?),
            _ => Order::InPlace,
        };
        Ok(Said { value: self.data.read(&mut bytes)?, order })
    }
}

/// Forms without references, by what follows the package.
fn value_form(name: &str) -> Option<Data> {
    Some(match name {
        "String" | "StringBuilder" | "StringBuffer" => Data::Characters,
        "Long" | "concurrent.atomic.AtomicLong" | "concurrent.atomic.LongAdder" | "Date" => Data::Long,
        "Double" | "concurrent.atomic.DoubleAdder" => Data::Double,
        "OptionalInt" => Data::OptionalInt,
        "OptionalLong" => Data::OptionalLong,
        "OptionalDouble" => Data::OptionalDouble,
        "UUID" => Data::Uuid,
        "Duration" | "Instant" | "LocalDate" | "LocalDateTime" | "LocalTime" | "MonthDay" | "OffsetDateTime"
        | "OffsetTime" | "Period" | "ZoneOffset" | "ZoneId" | "Currency" | "Class" => Data::Text,
        "Year" => Data::Year,
        "YearMonth" => Data::YearMonth,
        "ZonedDateTime" => Data::ZonedDateTime,
        "Locale" => Data::Locale,
        "regex.Pattern" => Data::Pattern,
        "Object" => Data::Nothing,
        "concurrent.atomic.AtomicBoolean" => Data::Boolean,
        "concurrent.atomic.AtomicInteger" => Data::Int,
        "reflect.Field" => Data::Constant,
        "StackTraceElement" => Data::StackTraceElement,
        "BitSet" => Data::BitSet,
        "Random" => Data::Random,
        _ => return None,
    })
}

/// Forms with references, by what follows the package.
fn other_form(name: &str) -> Option<(Data, References)> {
    let simple = |references| Some((Data::Nothing, references));
    let cells = |data, cells| Some((data, References::Cells(cells)));
    let (elements, entries) = (Cells::ELEMENTS, Cells::ENTRIES);
    match name {
        "ArrayList" | "Vector" | "Stack" => cells(Data::Size, elements),
        // Each by neighbouring buckets of its hash table.
        "HashMap.parts" | "HashSet.parts" => cells(Data::Parts, elements),
        "PriorityQueue" => cells(Data::Size, Cells { has_comparator: true, ..elements }),
        "ArrayDeque" => cells(Data::Ring, elements),
        "LinkedList" | "LinkedHashSet" => cells(Data::First, Cells { has_next: true, ..elements }),
        "LinkedHashMap" => cells(Data::FirstAndAccess, Cells { has_next: true, ..entries }),
        "HashSet"
        | "HashSet.part"
        | "List.of"
        | "Set.of"
        | "stream.Stream.toList"
        | "Collections.singleton"
        | "concurrent.atomic.AtomicReferenceArray"
        | "concurrent.CopyOnWriteArrayList"
        | "concurrent.CopyOnWriteArraySet"
        | "concurrent.ConcurrentLinkedQueue"
        | "concurrent.ConcurrentLinkedDeque"
        | "Collections.singletonList" => cells(Data::Nothing, elements),
        "HashMap"
        | "HashMap.part"
        | "Hashtable"
        | "IdentityHashMap"
        | "Properties"
        | "Map.of"
        | "concurrent.ConcurrentHashMap"
        | "Collections.singletonMap" => cells(Data::Nothing, entries),
        "TreeSet" | "concurrent.ConcurrentSkipListSet" => {
            cells(Data::Nothing, Cells { has_comparator: true, ..elements })
        }
        "TreeMap" | "concurrent.ConcurrentSkipListMap" => {
            cells(Data::Nothing, Cells { has_comparator: true, ..entries })
        }
        "concurrent.LinkedBlockingQueue" | "concurrent.LinkedBlockingDeque" | "concurrent.ArrayBlockingQueue" => {
            cells(Data::Capacity, elements)
        }
        "concurrent.ConcurrentHashMap.keySet" => simple(References::Named(&["getMap()", "getMappedValue()"])),
        "Throwable" => cells(Data::Throwable, elements),
        "EnumMap" => cells(Data::Text, entries),
        "EnumSet" => cells(Data::Text, elements),
        "invoke.SerializedLambda" => cells(Data::Lambda, elements),
        "Optional" | "concurrent.atomic.AtomicReference" => simple(References::Named(&["get()"])),
        "Map.entry" | "AbstractMap$SimpleEntry" | "AbstractMap$SimpleImmutableEntry" => simple(KEY_AND_VALUE),
        "Collections.nCopies" => simple(References::Named(&["size()", "get(0)"])),
        "Arrays.asList" | "concurrent.atomic.AtomicIntegerArray" | "concurrent.atomic.AtomicLongArray" => {
            simple(WRAPPED)
        }
        _ => {
            let method = name.strip_prefix("Collections.")?;
            let wraps = method.starts_with("unmodifiable")
                || method.starts_with("synchronized")
                || ["newSetFromMap", "asLifoQueue", "reverseOrder"].contains(&method);
            if wraps { simple(WRAPPED) } else { None }
        }
    }
}

impl Data {
    fn read(self, bytes: &mut Bytes<'_>) -> Result<Option<Meaning>, String> {
        let other = match self {
            Data::Nothing | Data::Size | Data::Ring | Data::First => return Ok(None),
            Data::Characters => return characters(bytes).map(|text| Some(Meaning::Text(text))),
            Data::Text
            | Data::ZonedDateTime
            | Data::Locale
            | Data::Pattern
            | Data::Lambda
            | Data::Constant
            | Data::Throwable
            | Data::StackTraceElement => self.texts(bytes)?,
            Data::Parts => format!("{} entries in parts", bytes.u32()?),
            Data::Capacity => match bytes.i32()? {
                i32::MAX => return Ok(None),
                capacity => format!("of at most {capacity}"),
            },
            Data::BigInteger => big_integer(bytes)?,
            Data::BigDecimal => {
                let scale = bytes.i32()?;
                scaled(&big_integer(bytes)?, scale)
            }
            Data::Long => bytes.i64()?.to_string(),
            Data::Int | Data::Year => bytes.i32()?.to_string(),
            Data::Double => format!("{:?}", f64::from_bits(bytes.u64()?)),
            Data::OptionalInt => optional(bytes.u32()? != 0, bytes.i32()?),
            Data::OptionalLong => optional(bytes.u64()? != 0, bytes.i64()?),
            Data::OptionalDouble => optional(bytes.u64()? != 0, f64::from_bits(bytes.u64()?)),
            Data::Boolean => (bytes.u32()? != 0).to_string(),
            Data::YearMonth => format!("{:04}-{:02}", bytes.i32()?, bytes.u32()?),
            Data::Uuid => {
                let digits = format!("{:016x}{:016x}", bytes.u64()?, bytes.u64()?);
                [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
            }
            Data::BitSet => bit_set(bytes)?,
            Data::Random => format!("seed {:#x}", bytes.u64()?),
            Data::FirstAndAccess => match bytes.u32()? {
                0 => return Ok(None),
                _ => "in order of access".to_string(),
            },
        };
        Ok(Some(Meaning::Other(other)))
    }

    /// Forms that are made of texts.
    fn texts(self, bytes: &mut Bytes<'_>) -> Result<String, String> {
        Ok(match self {
            Data::ZonedDateTime => format!("{}{}[{}]", bytes.text()?, bytes.text()?, bytes.text()?),
            Data::Locale if bytes.u32()? == 0 => bytes.text()?,
            Data::Locale => [bytes.text()?, bytes.text()?, bytes.text()?].join("_"),
            Data::Pattern => {
                let flags = bytes.u32()?;
                let pattern = bytes.text()?;
                if flags == 0 { pattern } else { format!("{pattern} (flags {flags:#x})") }
            }
            Data::Constant => format!("{}.{}", bytes.text()?, bytes.text()?),
            Data::Throwable => {
                let class = bytes.text()?;
                let fields = (0..bytes.u32()?).map(|_| {
                    bytes.text()?; // the class that declares it
                    bytes.text()
                });
                format!("{class} with {}", fields.collect::<Result<Vec<_>, _>>()?.join(", "))
            }
            Data::StackTraceElement => {
                let (line, _omitted) = (bytes.i32()?, bytes.u32()?);
                let (class, method, file) = (bytes.text()?, bytes.text()?, bytes.text()?);
                format!("{class}.{method}({file}:{line})")
            }
            Data::Lambda => {
                let capturing = bytes.text()?;
                let interface = bytes.text()?.replace('/', ".");
                let (_method, _descriptor, _kind) = (bytes.text()?, bytes.text()?, bytes.u32()?);
                let (class, method) = (bytes.text()?.replace('/', "."), bytes.text()?);
                format!("{interface} of {capturing}: {class}::{method}")
            }
            _ => bytes.text()?,
        })
    }
}

fn optional(is_present: bool, value: impl std::fmt::Debug) -> String {
    if is_present { format!("{value:?}") } else { "empty".to_string() }
}

fn characters(bytes: &mut Bytes<'_>) -> Result<String, String> {
    let at = bytes.place();
    let (kind, len) = (bytes.u32()?, bytes.u32()?);
    let characters = bytes.take(len as usize)?;
    match kind {
        0 => Ok(characters.iter().map(|&byte| char::from(byte)).collect()),
        1 => {
            let units = characters.as_chunks().0.iter().map(|&unit| u16::from_le_bytes(unit));
            // A half of a pair alone is shown as what has no character.
            Ok(char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
        }
        _ => Err(format!("byte {at}: characters of kind {kind} are not known: use a newer command")),
    }
}

/// The numbers of bits that are set, as many as a line takes.
fn bit_set(bytes: &mut Bytes<'_>) -> Result<String, String> {
    const SHOWN_MAX: usize = 64;
    let (count, _) = (bytes.u32()?, bytes.u32()?);
    let mut set = Vec::new();
    for word in 0..u64::from(count) {
        let bits = bytes.u64()?;
        set.extend((0..64).filter(|bit| bits >> bit & 1 != 0).map(|bit| (word * 64 + bit).to_string()));
        if set.len() > SHOWN_MAX {
            set.truncate(SHOWN_MAX);
            set.push("…".to_string());
            break;
        }
    }
    Ok(format!("{{{}}}", set.join(", ")))
}

/// Numbers that are longer are shown in hexadecimal digits.
const DECIMAL_BYTES_MAX: usize = 64;

/// A two's complement number, the highest byte first.
fn big_integer(bytes: &mut Bytes<'_>) -> Result<String, String> {
    let len = bytes.u32()? as usize;
    let number = bytes.take(len)?;
    let is_negative = number.first().is_some_and(|byte| byte & 0x80 != 0);
    if len > DECIMAL_BYTES_MAX {
        let digits: String = number[..DECIMAL_BYTES_MAX].iter().map(|byte| format!("{byte:02x}")).collect();
        return Ok(format!("two's complement of {len} bytes, 0x{digits}…"));
    }
    let mut limbs: Vec<u32> = vec![0]; // in base 10^9, the lowest first
    for &byte in number {
        // Of a negative number the complement, and one more in the end.
        let mut carry = u64::from(if is_negative { !byte } else { byte });
        carry = add_multiplied(&mut limbs, 256, carry);
        if carry != 0 {
            limbs.push(carry as u32);
        }
    }
    if is_negative {
        let carry = add_multiplied(&mut limbs, 1, 1);
        if carry != 0 {
            limbs.push(carry as u32);
        }
    }
    let mut text = if is_negative { "-".to_string() } else { String::new() };
    let mut limbs = limbs.iter().rev();
    text += &limbs.next().map_or_else(String::new, u32::to_string);
    limbs.for_each(|limb| text += &format!("{limb:09}"));
    Ok(text)
}

/// Multiplies a number in base 10^9, adds to it, and returns what is carried.
fn add_multiplied(limbs: &mut [u32], by: u64, mut carry: u64) -> u64 {
    const BASE: u64 = 1_000_000_000;
    for limb in limbs {
        let product = u64::from(*limb) * by + carry;
        *limb = (product % BASE) as u32;
        carry = product / BASE;
    }
    carry
}

/// An unscaled number with its scale.
fn scaled(unscaled: &str, scale: i32) -> String {
    const PLACES_MAX: i32 = 100;
    let (sign, digits) = unscaled.strip_prefix('-').map_or(("", unscaled), |digits| ("-", digits));
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) || !(0..=PLACES_MAX).contains(&scale) {
        return if scale == 0 { unscaled.to_string() } else { format!("{unscaled} × 10^{}", -i64::from(scale)) };
    }
    if scale == 0 {
        return unscaled.to_string();
    }
    let padded = format!("{digits:0>width$}", width = scale as usize + 1);
    let (whole, fraction) = padded.split_at(padded.len() - scale as usize);
    format!("{sign}{whole}.{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
    }

    fn integer(number: &[u8]) -> Vec<u8> {
        [&(number.len() as u32).to_le_bytes()[..], number].concat()
    }

    #[track_caller]
    fn says(form: &str, data: &[&[u8]], expected: &str) {
        let padded = [&data.concat()[..], &[0; 7]].concat();
        let said = Form::of(form, 1).unwrap().read(&padded).unwrap();
        match said.value.unwrap_or_else(|| panic!("{form} says nothing")) {
            Meaning::Text(text) | Meaning::Other(text) => assert_eq!(text, expected, "{form}"),
        }
    }

    /// Each name in the table of forms in docs/formats/java-objects.md; one without a package is of that before it.
    #[test]
    fn each_documented_form_is_known() {
        let page = include_str!("../../../../docs/formats/java-objects.md");
        let forms = page.split("| form | data | references |").nth(1).expect("a table of forms");
        let mut known = 0;
        for row in forms.lines().skip(2).take_while(|line| line.starts_with('|')) {
            let names = row.split(" | ").next().expect("a row has a first cell");
            let mut package = "";
            for name in names.split('`').skip(1).step_by(2) {
                // Names of methods, of which each is the end of a name.
                if name.contains('…') || name.ends_with('.') || names.contains(" with ") || name.starts_with("cedrat.")
                {
                    continue;
                }
                let full = if name.starts_with("java.") { name.to_string() } else { format!("{package}{name}") };
                if name.starts_with("java.") {
                    package = &name[..name.find(char::is_uppercase).expect("a class")];
                }
                assert!(Form::of(&full, 1).is_ok(), "{full}");
                known += 1;
            }
        }
        assert!(known > 80, "names: {known}");
    }

    #[test]
    fn values_are_read_as_documented() {
        let (zero, one, five) = (0_u32.to_le_bytes(), 1_u32.to_le_bytes(), 5_u32.to_le_bytes());
        says("java.lang.String", &[&zero, &integer(b"Zo\xeb")], "Zoë");
        says(
            "java.lang.StringBuilder",
            &[&one, &integer(&[0xac, 0x20, 0x34, 0xd8, 0x1e, 0xdd, 0, 0xd8])],
            "€𝄞\u{fffd}",
        );
        says("java.util.concurrent.ArrayBlockingQueue", &[&five, &zero], "of at most 5");
        says(
            "java.lang.Throwable",
            &[&text("a.B"), &one, &text("java.lang.Throwable"), &text("cause")],
            "a.B with cause",
        );
        says(
            "java.lang.StackTraceElement",
            &[&five, &zero, &text("a.B"), &text("c"), &text("B.java"), &text(""), &text(""), &text("")],
            "a.B.c(B.java:5)",
        );
        says("java.lang.Long", &[&(-7_i64).to_le_bytes()], "-7");
        says("java.lang.Double", &[&0.1_f64.to_le_bytes()], "0.1");
        says("java.math.BigInteger", &[&integer(&[0xff])], "-1");
        says("java.math.BigInteger", &[&integer(&[0x80, 0, 0, 0, 0, 0, 0, 0, 0])], "-2361183241434822606848");
        says("java.math.BigInteger", &[&integer(&[1, 0, 0, 0, 0, 0, 0, 0, 0])], "18446744073709551616");
        says("java.math.BigInteger", &[&integer(&[0])], "0");
        says("java.math.BigDecimal", &[&2_i32.to_le_bytes(), &integer(&[0xfb])], "-0.05");
        says("java.math.BigDecimal", &[&(-3_i32).to_le_bytes(), &integer(&[12])], "12 × 10^3");
        says("java.util.OptionalInt", &[&one, &five], "5");
        says("java.util.OptionalLong", &[&[0; 16]], "empty");
        says("java.util.OptionalDouble", &[&1_u64.to_le_bytes(), &2.5_f64.to_le_bytes()], "2.5");
        let uuid = [0x0123_4567_89ab_cdef_u64.to_le_bytes(), 0xfedc_ba98_7654_3210_u64.to_le_bytes()].concat();
        says("java.util.UUID", &[&uuid], "01234567-89ab-cdef-fedc-ba9876543210");
        says("java.time.Instant", &[&text("2026-01-02T03:04:05Z")], "2026-01-02T03:04:05Z");
        says("java.time.YearMonth", &[&2026_u32.to_le_bytes(), &five], "2026-05");
        let zoned = [text("2026-01-02T03:04"), text("+01:00"), text("Europe/Paris")].concat();
        says("java.time.ZonedDateTime", &[&zoned], "2026-01-02T03:04+01:00[Europe/Paris]");
        says("java.util.Locale", &[&zero, &text("fr-CA")], "fr-CA");
        says("java.util.Locale", &[&one, &text("no"), &text("NO"), &text("NY")], "no_NO_NY");
        says("java.util.regex.Pattern", &[&five, &text("a+")], "a+ (flags 0x5)");
        says("java.util.concurrent.atomic.AtomicBoolean", &[&one], "true");
        says("java.lang.reflect.Field", &[&text("a.B"), &text("NONE")], "a.B.NONE");
        says("java.io.Serializable", &[&text("a.Unit"), &five, &[1, 2, 3, 4, 5]], "a.Unit");
        says("java.util.BitSet", &[&one, &zero, &0b1001_u64.to_le_bytes()], "{0, 3}");
        says("java.util.EnumMap", &[&text("a.Color")], "a.Color");
        says("java.util.LinkedHashMap", &[&five, &one], "in order of access");
        let lambda = [text("a.B"), text("java/util/function/Function"), text("apply"), text("(LA;)LA;"), five.to_vec()];
        let behind = [text("a/B"), text("lambda$0"), text("()V"), text("()V")];
        says(
            "java.lang.invoke.SerializedLambda",
            &[&lambda.concat(), &behind.concat()],
            "java.util.function.Function of a.B: a.B::lambda$0",
        );
        let order = |form: &str| Form::of(form, 1).unwrap().read(&[&five[..], &zero].concat()).unwrap().order;
        assert_eq!(order("java.util.ArrayList"), Order::First(5));
        assert_eq!(order("java.util.ArrayDeque"), Order::Ring { from: 5, len: 0 });
        assert_eq!(order("java.util.LinkedHashMap"), Order::Linked(5));
        assert_eq!(order("java.util.HashMap"), Order::InPlace);
    }

    /// The names in the format's table, with those that it writes in short.
    #[test]
    fn every_documented_form_is_known() {
        let format = include_str!("../../../../docs/formats/java-objects.md");
        let table = format.split("| form | data | references |").nth(1).expect("the table of forms");
        let mut found = 0;
        for row in table.lines().filter(|line| line.starts_with("| `")) {
            let column = row.split('|').nth(1).expect("a column");
            let names: Vec<&str> = column.split('`').skip(1).step_by(2).collect();
            let first = names[0];
            let package = &first[..=first.rfind('.').expect("a package")];
            for &name in &names {
                let full = if name.starts_with("java.") || name.starts_with("cedrat.") {
                    name.to_string()
                } else {
                    format!("{package}{name}")
                };
                if full.ends_with('.') {
                    continue; // the beginning of those that follow
                }
                let example = full.strip_suffix('…').map_or(full.clone(), |family| format!("{family}List"));
                assert!(Form::of(&example, 1).is_ok(), "{example}");
                found += 1;
            }
        }
        assert!(found > 70, "{found}");
        assert!(Form::of("java.util.WeakHashMap", 1).is_err() && Form::of("java.util.ArrayList", 2).is_err());
    }
}
