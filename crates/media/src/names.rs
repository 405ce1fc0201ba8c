//! Names and locks of files.

use std::any::Any;
use std::fmt;
use std::io;

/// A locked file; see [`crate::Media::lock`]. Dropping the guard unlocks the file.
pub struct LockGuard(#[allow(dead_code, reason = "held for its drop")] Box<dyn Any + Send + Sync>);

impl LockGuard {
    /// Creates a lock that is released when `holder` is dropped; for implementations of other media.
    pub fn new(holder: impl Any + Send + Sync) -> LockGuard {
        LockGuard(Box::new(holder))
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LockGuard(..)")
    }
}

/// Splits the name of a file into directory (`""`: the medium's own) and last component.
pub(crate) fn split(name: &str) -> io::Result<(&str, &str)> {
    let (directory, last) = name.split_once('/').unwrap_or(("", name));
    if (directory.is_empty() != name.contains('/'))
        && (directory.is_empty() || is_component(directory))
        && is_component(last)
    {
        Ok((directory, last))
    } else {
        Err(refused(name))
    }
}

/// Checks the name of a directory: empty, or one component.
pub(crate) fn check_directory(name: &str) -> io::Result<()> {
    if name.is_empty() || is_component(name) { Ok(()) } else { Err(refused(name)) }
}

/// Whether the component is valid. It may not begin with a dot, so that no name leads out of the directory.
fn is_component(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
}

fn refused(name: &str) -> io::Error {
    let message =
        format!("{name:?} cannot name a file here: use one component, or two joined by '/', without leading dots");
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_or_two_components() {
        assert_eq!(split("control").unwrap(), ("", "control"));
        assert_eq!(split("log/000-000001").unwrap(), ("log", "000-000001"));
        for bad in ["", "/", "/a", "a/", "a/b/c", "..", "../a", "a/..", ".hidden", "a\0b"] {
            assert_eq!(split(bad).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{bad:?}");
        }
        assert!(check_directory("").is_ok() && check_directory("log").is_ok() && check_directory("a/b").is_err());
    }
}
