//! The POMs of the Java parts have what Maven Central requires.

use cedrat_tests::{SourceFile, sources};

/// Returns the POMs of Cedrat, without those of the quick starts, which are programs of users.
fn poms() -> Vec<SourceFile> {
    let poms = sources(&["pom.xml"]);
    let own: Vec<_> = poms.into_iter().filter(|pom| !pom.name.ends_with("quick-start/pom.xml")).collect();
    assert!(own.len() > 20, "{} POMs", own.len());
    own
}

/// Returns the part of a POM that describes its own artifact: without those that it needs.
fn own_part(pom: &SourceFile) -> &str {
    pom.text.split("<dependencies>").next().unwrap_or_default()
}

#[test]
fn artifacts_have_published_group() {
    for pom in poms() {
        let group = own_part(&pom).split("<groupId>").nth(1).and_then(|rest| rest.split('<').next());
        assert_eq!(group, Some("io.github.cedrat"), "{}", pom.name);
        assert!(!pom.text.contains("<groupId>cedrat</groupId>"), "{}: group of no namespace", pom.name);
    }
}

#[test]
fn published_artifacts_describe_themselves() {
    for pom in poms() {
        let own = own_part(&pom);
        assert!(own.contains("  <name>"), "{}: no name", pom.name);
        let is_private = own.contains("<maven.deploy.skip>true<") && own.contains("<skipPublishing>true<");
        assert!(is_private || own.contains("  <description>"), "{}: neither described nor private", pom.name);
        // Modules inherit the other fields, without a parent they state them.
        if is_private || own.contains("<parent>") {
            continue;
        }
        for field in ["url", "licenses", "developers", "scm"] {
            assert!(own.contains(&format!("\n  <{field}")), "{}: no {field}", pom.name);
        }
    }
}

/// Maven's dependency plugin names the path of an artifact by its group: a page that shows the name of another group shows
/// commands that fail.
#[test]
fn pages_name_the_agent_by_group() {
    let pages = sources(&["java-tools.md", "java-quick-start.md"]);
    assert_eq!(pages.len(), 2);
    for page in pages {
        let parts: Vec<_> = page.text.split(":persist:jar").collect();
        let (_, before) = parts.split_last().expect("a text has a part");
        assert!(!before.is_empty(), "{}: the path of the agent is missing", page.name);
        assert!(before.iter().all(|before| before.ends_with("io.github.cedrat")), "{}: another group", page.name);
    }
}
