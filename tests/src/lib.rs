//! Shared code of the tests of the whole repository.
//!
//! The tests lie beside this folder, one folder for each subject: `lint` verifies the repository's own rules, `hostile` the
//! effects of hostile bytes.
#![forbid(unsafe_code)]

pub mod citations;
pub mod hostile;
pub mod hostile_entries;
pub mod hostile_objects;
pub mod invariants;
pub mod repair;
pub mod seed;

pub use cedrat::media::Image;

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in a folder of the repository").to_path_buf()
}

/// A text file of the repository.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Path from the root, with `/` between folders.
    pub name: String,
    /// Content of the file.
    pub text: String,
}

/// Returns the repository's files that end in one of `endings`, in the order of their names.
///
/// Build folders (with a `CACHEDIR.TAG`, or a `target` beside a `pom.xml`), hidden ones and symbolic links are left out.
pub fn sources(endings: &[&str]) -> Vec<SourceFile> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the repository") {
            let path = entry.expect("an entry of the repository").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_built = path.join("CACHEDIR.TAG").exists() || name == "target" && folder.join("pom.xml").exists();
            if name.starts_with('.') || path.is_symlink() || is_built {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                let text = fs::read_to_string(&path).expect("text in UTF-8");
                let name = path.strip_prefix(&root).expect("below the root");
                found.push(SourceFile { name: name.to_string_lossy().replace('\\', "/"), text });
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}
