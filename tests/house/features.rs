//! Each feature of the papers has a test and a description: `docs/features.md` names them.

use std::collections::BTreeSet;

use cedrat_tests::root;

/// The features that this part of the project implements, by their numbers in the project's checklist of the papers: L is
/// Lemon, D its draft LLADD, H is Hathi, J is Transactions for Java, R is ReTSO.
const TAKEN_ON: &[&str] = &[
    "L001", "L002", "L004", "L005", "L006", "L007", "L008", "L009", "L011", "L012", "L015", "L016", "L017", "L019",
    "L022", "L023", "L024", "L025", "L027", "L028", "L029", "L030", "L034", "L035", "L036", "L037", "L038", "L039",
    "L040", "L041", "L042", "L043", "L044", "L045", "L046", "L047", "L048", "L049", "L050", "L051", "L052", "L053",
    "L054", "L055", "L056", "L059", "L060", "L061", "L062", "L063", "L064", "L067", "L071", "L072", "L073", "L074",
    "L075", "L076", "L077", "L078", "L079", "L080", "L081", "L082", "L083", "D001", "D002", "D003", "D004", "D005",
    "D006", "D007", "D008", "D010", "D011", "D014", "D015", "D017", "D018", "D019", "D020", "D021", "D022", "D023",
    "D025", "D026", "D027", "D030", "D031", "D036", "D043", "D050", "H001", "H002", "H003", "H004", "H005", "H006",
    "H007", "H008", "H009", "H010", "H011", "H012", "H013", "H014", "H015", "H016", "H017", "H018", "H019", "H020",
    "H021", "H022", "H023", "H024", "H025", "H026", "H027", "H028", "H030", "H031", "H032", "H033", "H034", "J001",
    "J002", "J003", "J004", "J005", "J006", "J007", "J008", "J009", "J010", "J011", "J012", "J013", "J014", "J015",
    "J016", "J017", "J018", "J019", "J020", "J021", "J022", "J023", "J024", "J025", "J026", "J027", "J029", "J030",
    "J031", "J032", "J033", "J034", "J035", "J036", "J037", "J038", "J040", "J041", "J042", "J043", "J044", "J047",
    "J048", "J049", "J050", "J051", "R001", "R002", "R003", "R004", "R005", "R006", "R007", "R008", "R009", "R010",
    "R011", "R012", "R013", "R014", "R015", "R016", "R017", "R018", "R019", "R020", "R021", "R022", "R023", "R024",
    "R025", "R026", "R027", "R028", "R029", "R030", "R031", "R032", "R033", "R034", "R035", "R036", "R037", "R038",
];

/// A row of the table.
#[derive(Debug)]
struct Row {
    id: String,
    /// `path::name` of each test.
    tests: Vec<String>,
    /// The targets of the links to its descriptions.
    pages: Vec<String>,
}

/// Returns the texts between each pair of `open` and `close`.
fn between(cell: &str, open: &str, close: &str) -> Vec<String> {
    cell.split(open).skip(1).filter_map(|rest| rest.split_once(close)).map(|(inner, _)| inner.to_string()).collect()
}

fn rows(page: &str) -> Vec<Row> {
    page.lines()
        .filter_map(|line| line.strip_prefix("| "))
        .map(|line| line.split(" | ").collect::<Vec<_>>())
        .filter(|cells| cells.len() == 4 && cells[0].len() == 4 && cells[0][1..].parse::<u32>().is_ok())
        .map(|cells| Row {
            id: cells[0].to_string(),
            tests: cells[2].split('`').skip(1).step_by(2).map(String::from).collect(),
            pages: between(cells[3], "](", ")"),
        })
        .collect()
}

/// Returns the fault of a reference to a test, if there is one.
fn broken_test(reference: &str) -> Option<String> {
    let Some((path, name)) = reference.split_once("::") else {
        return Some("is not `path::name`".to_string());
    };
    let Ok(text) = std::fs::read_to_string(root().join(path)) else {
        return Some(format!("there is no file {path}"));
    };
    let has_tests =
        ["#[test]", "proptest!", "@Test", "@ParameterizedTest", "@Property"].iter().any(|mark| text.contains(mark));
    let declared = [format!("fn {name}("), format!("fn {name}<"), format!("    void {name}(")];
    let there = has_tests && declared.iter().any(|declaration| text.contains(declaration));
    (!there).then(|| format!("there is no test {name} in {path}"))
}

#[test]
fn every_feature_is_tested_and_described() {
    let page = std::fs::read_to_string(root().join("docs/features.md")).expect("the page");
    let rows = rows(&page);
    let mut wrong = Vec::new();
    for row in &rows {
        if row.tests.is_empty() || row.pages.is_empty() {
            wrong.push(format!("{}: names no test or no page", row.id));
        }
        for test in &row.tests {
            wrong.extend(broken_test(test).map(|why| format!("{}: {why}", row.id)));
        }
        for target in &row.pages {
            let file = target.split('#').next().unwrap_or_default();
            if !root().join("docs").join(file).is_file() {
                wrong.push(format!("{}: there is no page {target}", row.id));
            }
        }
    }
    let listed: BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    if listed.len() != rows.len() {
        wrong.push("a number is listed twice".to_string());
    }
    for id in TAKEN_ON {
        if !listed.contains(id) {
            wrong.push(format!("{id}: is missing"));
        }
    }
    assert!(wrong.is_empty(), "docs/features.md:\n{}", wrong.join("\n"));
}

#[test]
fn a_reference_to_no_test_is_seen() {
    let here = "tests/house/features.rs";
    assert_eq!(broken_test(&format!("{here}::a_reference_to_no_test_is_seen")), None);
    assert!(broken_test(&format!("{here}::no_such_test")).is_some());
    let java = "java/oracle-state/src/test/java/cedrat/oracle/state/StatusOracleTest.java";
    assert_eq!(broken_test(&format!("{java}::aPhantomAborts")), None);
    assert!(broken_test(&format!("{java}::forgetRows")).is_some(), "no test");
    assert!(broken_test("tests/house/missing.rs::a").is_some());
    assert!(broken_test("a").is_some());
}
