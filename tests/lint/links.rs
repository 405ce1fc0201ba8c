//! Every link in a page of the documentation has an existing target.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use cedrat_tests::{root, sources};

/// Returns the targets of `[text](target)` in a page, code blocks left out.
fn targets(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_code = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        let mut rest = line;
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            let end = rest.find(')').unwrap_or(rest.len());
            found.push(rest[..end].to_string());
            rest = &rest[end..];
        }
    }
    found
}

/// Returns the anchor of a heading, by the rule of the usual renderers.
fn anchor(heading: &str) -> String {
    heading
        .trim_start_matches('#')
        .trim()
        .to_lowercase()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        })
        .collect()
}

fn anchors(page: &str) -> BTreeSet<String> {
    page.lines().filter(|line| line.starts_with('#')).map(anchor).collect()
}

/// Resolves `.` and `..` without the file system.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// Returns the fault of a link from `page` to `target`, if there is one.
fn broken(page: &str, text: &str, target: &str) -> Option<String> {
    if target.starts_with("https://") || target.starts_with("http://") {
        return None;
    }
    let (file, wanted) = match target.split_once('#') {
        Some((file, anchor)) => (file, Some(anchor)),
        None => (target, None),
    };
    let (path, text) = if file.is_empty() {
        (PathBuf::from(page), Some(text.to_string()))
    } else {
        let path = plain(&Path::new(page).parent().unwrap_or(Path::new("")).join(file));
        let text = std::fs::read_to_string(root().join(&path)).ok();
        (path, text)
    };
    if !file.is_empty() && !root().join(&path).exists() {
        return Some(format!("{page}: no file behind the link {target}"));
    }
    let wanted = wanted.filter(|_| path.extension().is_some_and(|ending| ending == "md"))?;
    (!anchors(&text.unwrap_or_default()).contains(wanted))
        .then(|| format!("{page}: no heading behind the link {target}"))
}

#[test]
fn links_in_the_documentation_lead_somewhere() {
    let broken: Vec<String> = sources(&[".md"])
        .iter()
        .flat_map(|page| {
            targets(&page.text)
                .into_iter()
                .filter_map(|target| broken(&page.name, &page.text, &target))
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

#[test]
fn readme_reaches_every_documentation_page() {
    let pages = sources(&[".md"]);
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let mut next = vec!["README.md".to_string()];
    while let Some(name) = next.pop() {
        let Some(page) = pages.iter().find(|page| page.name == name) else {
            continue;
        };
        if reached.insert(name.clone()) {
            for target in targets(&page.text) {
                let file = target.split('#').next().unwrap_or_default();
                let folder = Path::new(&name).parent().unwrap_or(Path::new(""));
                next.push(plain(&folder.join(file)).to_string_lossy().into_owned());
            }
        }
    }
    let lost: Vec<&str> = pages
        .iter()
        .map(|page| page.name.as_str())
        .filter(|name| name.starts_with("docs/") && !reached.contains(*name))
        .collect();
    assert!(lost.is_empty(), "no way leads from README.md to {lost:?}");
}

#[test]
fn a_broken_link_is_seen() {
    let page = "[a](missing.md) `x` [b](README.md#no-such-heading) [c](#here)\n# Here\n";
    let seen: Vec<_> = targets(page).iter().filter_map(|target| broken("index.md", page, target)).collect();
    assert!(seen[0].contains("no file behind the link missing.md"));
    assert_eq!(seen.len(), 2, "{seen:?}");
}
