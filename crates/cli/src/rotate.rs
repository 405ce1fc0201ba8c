//! `cedrat rotate-key`: another key for an encrypted directory.

use cedrat::media::Encryption;
use serde::Serialize;

use crate::arguments::RotateKey;
use crate::disks::{self, Disks, read_key};
use crate::look;
use crate::output::{self, Context, Outcome, fail};

/// The directory with its new key.
#[derive(Debug, Serialize)]
struct Rotated {
    /// The fingerprint of the key.
    key: String,
}

/// Wraps the data key of a store, a backup or an archive under another key.
pub(crate) fn rotate_key(arguments: &RotateKey, disks: &Disks) -> Outcome {
    look::is_directory(&arguments.directory)?;
    let Some(old) = disks.encryption() else { return fail("name the file of the present key by --key-file") };
    let key = read_key(&arguments.new_key_file)?;
    let rotated = Rotated { key: key.fingerprint() };
    old.rotate(&*disks::plain(&arguments.directory), &Encryption::with_key(key))
        .while_doing(arguments.directory.display())?;
    if arguments.json { output::json(&rotated) } else { output::rows(&[("key", rotated.key)]) }
}
