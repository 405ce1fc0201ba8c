//! Which text is counted: files, and pieces of long files.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::words;
use crate::output::{Context, Failure};

/// A file longer than this is counted in pieces, one transaction each, so that no transaction grows with
/// its file. Short enough that a piece's log records fit the log many times over.
const PIECE_LEN: u64 = 1 << 20;

/// Number of bytes at the beginning of a file that decide whether it is text.
const PROBE_LEN: usize = 8 * 1024;

/// How far behind a piece's nominal end a place between words is looked for.
const CUT_LEN: usize = 4 * 1024;

/// Piece that one transaction counts: a whole file, or a part of a long one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Piece {
    pub(crate) file: PathBuf,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Piece {
    /// Calls `each` with every word of the piece.
    pub(crate) fn each_word(&self, each: impl FnMut(&str)) -> Result<(), Failure> {
        let read = || -> io::Result<()> {
            let mut file = File::open(&self.file)?;
            file.seek(SeekFrom::Start(self.start))?;
            words::each_word(file.take(self.end - self.start), each)
        };
        read().while_doing(self.file.display())
    }
}

/// The text that a tour counts.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Text {
    /// Number of files.
    pub(crate) files: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Pieces to count, in an order that does not depend on the file system.
    pub(crate) pieces: Vec<Piece>,
    /// When each file was changed last, to notice if one changes under the tour.
    changed: Vec<(PathBuf, u64, SystemTime)>,
    /// Files that were left out, and why.
    pub(crate) left_out: Vec<String>,
}

impl Text {
    /// Finds all text in `paths`. A path that is a file is taken as it is; below a folder, files that are
    /// not text, hidden ones, and folders marked as a cache (`CACHEDIR.TAG`) are passed over.
    pub(crate) fn find(paths: &[PathBuf]) -> Result<Text, Failure> {
        let mut text = Text::default();
        for path in paths {
            let about = fs::metadata(path).while_doing(path.display())?;
            if about.is_dir() {
                text.walk(path)?;
            } else if about.is_file() {
                text.add(path)?;
            } else {
                text.leave_out(path, "neither a file nor a folder");
            }
        }
        Ok(text)
    }

    fn walk(&mut self, folder: &Path) -> Result<(), Failure> {
        let mut entries: Vec<PathBuf> = fs::read_dir(folder)
            .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
            .while_doing(folder.display())?;
        entries.sort();
        for path in entries {
            let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            // A link may lead outside, or round and round.
            let Ok(about) = fs::symlink_metadata(&path) else {
                continue; // gone since the folder was read
            };
            if hidden || about.is_symlink() || path.join("CACHEDIR.TAG").exists() {
                continue;
            }
            if about.is_dir() {
                self.walk(&path)?;
            } else if about.is_file() {
                self.add(&path)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &Path) -> Result<(), Failure> {
        if path.to_str().is_none() {
            self.leave_out(path, "its name is not UTF-8");
            return Ok(());
        }
        let examine = || -> io::Result<Option<(u64, SystemTime, Vec<u64>)>> {
            let mut file = File::open(path)?;
            let about = file.metadata()?;
            if !is_text(&mut file)? {
                return Ok(None);
            }
            let cuts = cuts(&mut file, about.len())?;
            Ok(Some((about.len(), about.modified()?, cuts)))
        };
        match examine() {
            Ok(Some((length, changed, cuts))) => {
                self.files += 1;
                self.bytes += length;
                self.changed.push((path.to_path_buf(), length, changed));
                let ends = cuts.iter().copied().chain([length]);
                let mut start = 0;
                for end in ends {
                    self.pieces.push(Piece { file: path.to_path_buf(), start, end });
                    start = end;
                }
            }
            Ok(None) => {}
            Err(error) => self.leave_out(path, &error.to_string()),
        }
        Ok(())
    }

    fn leave_out(&mut self, path: &Path, why: &str) {
        self.left_out.push(format!("{}: {why}", path.display()));
    }

    /// The files that were changed since they were found.
    pub(crate) fn changed(&self) -> Vec<&Path> {
        self.changed
            .iter()
            .filter(|(path, length, changed)| {
                !fs::metadata(path)
                    .is_ok_and(|about| about.len() == *length && about.modified().is_ok_and(|now| now == *changed))
            })
            .map(|(path, ..)| path.as_path())
            .collect()
    }
}

/// Whether a file looks like text: no zero byte near its beginning, as git decides it.
fn is_text(file: &mut File) -> io::Result<bool> {
    let mut probe = Vec::with_capacity(PROBE_LEN);
    Read::take(&*file, PROBE_LEN as u64).read_to_end(&mut probe)?;
    Ok(!probe.contains(&0))
}

/// Where a file of `length` bytes is cut into pieces.
fn cuts(file: &mut File, length: u64) -> io::Result<Vec<u64>> {
    let mut cuts = Vec::new();
    let mut at = PIECE_LEN;
    let mut behind = Vec::with_capacity(CUT_LEN);
    while at < length {
        behind.clear();
        file.seek(SeekFrom::Start(at))?;
        Read::take(&*file, CUT_LEN as u64).read_to_end(&mut behind)?;
        at += words::cut_after(&behind) as u64;
        if at < length {
            cuts.push(at);
        }
        at += PIECE_LEN;
    }
    Ok(cuts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a folder")
    }

    fn all_words(text: &Text) -> Vec<String> {
        let mut found = Vec::new();
        for piece in &text.pieces {
            piece.each_word(|word| found.push(word.to_string())).expect("readable");
        }
        found
    }

    #[test]
    fn text_is_found_and_rest_ignored() {
        let folder = folder();
        let at = |name: &str| folder.path().join(name);
        for name in ["b", ".hidden", "built"] {
            fs::create_dir(at(name)).expect("a folder");
        }
        for (name, content) in [
            ("a.txt", &b"one two"[..]),
            ("b/c.md", b"three"),
            ("empty", b""),
            ("picture", b"\x89PNG\0\0"),
            (".hidden/d", b"never"),
            (".e", b"never"),
            ("built/CACHEDIR.TAG", b"Signature"),
            ("built/f", b"never"),
        ] {
            fs::write(at(name), content).expect("a file");
        }
        std::os::unix::fs::symlink(folder.path(), at("round")).expect("a link");
        let text = Text::find(&[folder.path().to_path_buf()]).expect("readable");
        assert_eq!((text.files, text.bytes), (3, 12));
        assert_eq!(all_words(&text), ["one", "two", "three"]);
        assert!(text.changed().is_empty());
        fs::write(at("a.txt"), "more than before").expect("a file");
        assert_eq!(text.changed(), [at("a.txt")]);
    }

    #[test]
    fn nothing_at_all_is_text_too() {
        let folder = folder();
        let text = Text::find(&[folder.path().to_path_buf()]).expect("readable");
        assert_eq!((text.files, text.pieces.len()), (0, 0));
        let missing = Text::find(&[folder.path().join("missing")]);
        assert!(missing.expect_err("nothing there").0.contains("missing"));
    }

    #[test]
    fn pieces_of_long_file_keep_words() {
        let folder = folder();
        let path = folder.path().join("long");
        let line = "the quick brown fox jumps over the lazy dog größer ";
        let lines = 3 * PIECE_LEN as usize / line.len();
        fs::write(&path, line.repeat(lines)).expect("a file");
        let text = Text::find(std::slice::from_ref(&path)).expect("readable");
        assert_eq!((text.files, text.pieces.len()), (1, 3));
        assert_eq!(all_words(&text).len(), lines * 10);

        fs::write(&path, "x".repeat(2 * PIECE_LEN as usize)).expect("a file");
        let text = Text::find(&[path]).expect("readable");
        assert_eq!(text.pieces.len(), 2);
        assert_eq!(all_words(&text).concat().len(), 2 * PIECE_LEN as usize);
    }
}
