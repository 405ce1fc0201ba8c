//! Files of a store as text: per file a line with its name and length, then lines of an offset and the bytes there, in
//! hexadecimal digits. What no line names is zero.

use std::fmt::Write;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Most bytes of a line.
const LINE_LEN: usize = 56;
/// Zeros that end a line.
const ZEROS: usize = 6;

/// Writes the files that `text` describes into a directory.
pub(crate) fn expand(text: &str, directory: &Path) -> io::Result<()> {
    let mut file = None;
    for line in text.lines() {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, format!("invalid line: {line}"));
        let mut words = line.split(' ');
        let mut word = || words.next().ok_or_else(invalid);
        match word()? {
            "file" => {
                let path = directory.join(word()?);
                fs::create_dir_all(path.parent().ok_or_else(invalid)?)?;
                let made = File::create(path)?;
                made.set_len(word()?.parse().map_err(|_| invalid())?)?;
                file = Some(made);
            }
            offset => {
                let offset = u64::from_str_radix(offset, 16).map_err(|_| invalid())?;
                let digits = word()?.as_bytes().chunks(2);
                let bytes: Option<Vec<u8>> =
                    digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect();
                file.as_ref().ok_or_else(invalid)?.write_all_at(&bytes.ok_or_else(invalid)?, offset)?;
            }
        }
    }
    Ok(())
}

/// Describes the files of a directory.
pub(crate) fn describe(directory: &Path) -> io::Result<String> {
    let mut names = Vec::new();
    list(directory, "", &mut names)?;
    names.sort();
    let mut text = String::new();
    for name in names {
        let bytes = fs::read(directory.join(&name))?;
        let _ = writeln!(text, "file {name} {}", bytes.len());
        let mut at = 0;
        while let Some(begin) = bytes[at..].iter().position(|&byte| byte != 0).map(|zeros| at + zeros) {
            let within = bytes[begin..].windows(ZEROS).position(|window| window.iter().all(|&byte| byte == 0));
            at = within.map_or(bytes.len(), |len| begin + len);
            for (number, line) in bytes[begin..at].chunks(LINE_LEN).enumerate() {
                let _ = write!(text, "{:x} ", begin + number * LINE_LEN);
                for byte in line {
                    let _ = write!(text, "{byte:02x}");
                }
                text.push('\n');
            }
        }
    }
    Ok(text)
}

fn list(directory: &Path, below: &str, names: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(directory.join(below))? {
        let entry = entry?;
        let name = Path::new(below).join(entry.file_name()).to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() { list(directory, &name, names)? } else { names.push(name) }
    }
    Ok(())
}
