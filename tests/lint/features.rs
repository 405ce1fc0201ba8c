//! `docs/features.md` quotes each requirement of the papers once, with its state, its tests and its pages.

use std::collections::BTreeMap;

use cedrat_tests::root;

/// Numbers of the requirements of each paper, and its name in citations.
const PAPERS: [(char, usize, &str); 5] = [
    ('L', 101, "Lemon"),
    ('D', 50, "LLADD"),
    ('H', 34, "Hathi"),
    ('J', 51, "Transactions for Java"),
    ('R', 38, "ReTSO"),
];

const STATES: [&str; 3] = ["works", "partial", "missing"];

/// Annotations of test functions.
const TEST_MARKS: [&str; 5] = ["#[test]", "@Test", "@ParameterizedTest", "@RepeatedTest", "@Property"];

/// A row of a table of requirements.
#[derive(Debug)]
struct Row {
    id: String,
    /// The text of the requirement, with its place in the paper.
    requirement: String,
    state: String,
    /// The missing part, or the difference from the paper.
    remark: String,
    /// `path::name` of each test.
    tests: Vec<String>,
    /// The targets of the links to its descriptions.
    pages: Vec<String>,
}

/// Returns the strings between each pair of `open` and `close`.
fn between(cell: &str, open: &str, close: &str) -> Vec<String> {
    cell.split(open).skip(1).filter_map(|rest| rest.split_once(close)).map(|(inner, _)| inner.to_string()).collect()
}

/// Returns the strings in backticks.
fn quotes(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(String::from).collect()
}

/// Returns the cells of each line of a table.
fn cells(page: &str) -> Vec<Vec<&str>> {
    let lines = page.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
    lines.map(|line| line.split('|').map(str::trim).collect()).collect()
}

fn rows(page: &str) -> Vec<Row> {
    let of = |cells: Vec<&str>| {
        let [id, requirement, state, remark, tests, pages] = cells[..] else { return None };
        (id.len() == 4 && id[1..].parse::<u32>().is_ok()).then(|| Row {
            id: id.to_string(),
            requirement: requirement.to_string(),
            state: state.to_string(),
            remark: remark.to_string(),
            tests: quotes(tests),
            pages: between(pages, "](", ")"),
        })
    };
    cells(page).into_iter().filter_map(of).collect()
}

/// Whether `text` has a test function of this name: one of the annotations stands before it, and no other function ends
/// between the two.
fn has_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let declarations = [format!("fn {name}("), format!("fn {name}<"), format!("void {name}(")];
    lines.iter().enumerate().any(|(at, line)| {
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = format!("{indent}}}");
        let is_mark = |line: &str| {
            line.strip_prefix(indent).is_some_and(|rest| TEST_MARKS.iter().any(|mark| rest.starts_with(mark)))
        };
        declarations.iter().any(|declaration| line.trim_start().starts_with(declaration))
            && lines[..at].iter().rev().take_while(|line| **line != end).any(|line| is_mark(line))
    })
}

/// Returns the fault of a reference to a test, if there is one.
fn broken_test(reference: &str) -> Option<String> {
    let Some((path, name)) = reference.split_once("::") else {
        return Some("is not `path::name`".to_string());
    };
    let Ok(text) = std::fs::read_to_string(root().join(path)) else {
        return Some(format!("there is no file {path}"));
    };
    (!has_test(&text, name)).then(|| format!("there is no test {name} in {path}"))
}

/// Returns the faults of a row.
fn faults(row: &Row) -> Vec<String> {
    let mut wrong = Vec::new();
    let paper = PAPERS.iter().find(|(letter, ..)| row.id.starts_with(*letter)).map(|(.., name)| *name);
    if !paper.is_some_and(|name| row.requirement.contains(&format!("({name}, "))) {
        wrong.push("has no place in its paper".to_string());
    }
    match row.state.as_str() {
        "works" if row.tests.is_empty() || row.pages.is_empty() => {
            wrong.push("works, without test or page".to_string())
        }
        "partial" if row.remark.is_empty() => wrong.push("does not say what is missing".to_string()),
        "partial" if row.pages.is_empty() => wrong.push("is partial, without page".to_string()),
        "missing" if !row.tests.is_empty() => wrong.push("is missing, and has a test".to_string()),
        state if !STATES.contains(&state) => wrong.push(format!("has the state {state}")),
        _ => {}
    }
    wrong.extend(row.tests.iter().filter_map(|test| broken_test(test)));
    let mut pages = String::new();
    for target in &row.pages {
        let file = target.split('#').next().unwrap_or_default();
        match std::fs::read_to_string(root().join("docs").join(file)) {
            Ok(page) => pages += &page,
            Err(_) => wrong.push(format!("there is no page {target}")),
        }
    }
    let pages = pages.split_whitespace().collect::<Vec<_>>().join(" ");
    let lost = quotes(&row.remark).into_iter().filter(|quote| !pages.contains(quote));
    wrong.extend(lost.map(|quote| format!("no page of the row has `{quote}`")));
    wrong.into_iter().map(|fault| format!("{}: {fault}", row.id)).collect()
}

/// Returns the faults of the list of numbers: each number of each paper once, and no other.
fn wrong_numbers(rows: &[Row]) -> Vec<String> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for (letter, last, _) in PAPERS {
        times.extend((1..=last).map(|number| (format!("{letter}{number:03}"), 0)));
    }
    let requirements = times.len();
    for row in rows {
        *times.entry(row.id.clone()).or_insert(0) += 1;
    }
    let mut wrong: Vec<String> = times
        .iter()
        .filter(|(_, times)| **times != 1)
        .map(|(id, times)| format!("{id}: listed {times} times"))
        .collect();
    if times.len() != requirements {
        wrong.push(format!("there are {} numbers, and {requirements} requirements", times.len()));
    }
    wrong
}

/// Returns the lines that the table of counts must have.
fn counts(rows: &[Row]) -> Vec<String> {
    let line = |name: &str, is_of: &dyn Fn(&Row) -> bool| {
        let of: Vec<&Row> = rows.iter().filter(|row| is_of(row)).collect();
        let count = |state: &str| of.iter().filter(|row| row.state == state).count();
        format!("| {name} | {} | {} | {} | {} |", count("works"), count("partial"), count("missing"), of.len())
    };
    let mut lines: Vec<String> =
        PAPERS.iter().map(|&(letter, _, name)| line(name, &|row| row.id.starts_with(letter))).collect();
    lines.push(line("all", &|_| true));
    lines
}

#[test]
fn every_feature_is_tested_and_described() {
    let page = std::fs::read_to_string(root().join("docs/features.md")).expect("the page");
    let rows = rows(&page);
    let mut wrong: Vec<String> = rows.iter().flat_map(faults).collect();
    wrong.extend(wrong_numbers(&rows));
    let lost = counts(&rows).into_iter().filter(|count| !page.lines().any(|line| line == count));
    wrong.extend(lost.map(|count| format!("the table of counts lacks the line {count}")));
    assert!(wrong.is_empty(), "docs/features.md:\n{}", wrong.join("\n"));
}

#[test]
fn weak_row_of_features_is_seen() {
    let test = "tests/lint/features.rs::weak_row_of_features_is_seen";
    let page = "[page](bibliography.md)";
    let faults_of = |state: &str, remark: &str, test: &str| {
        let line = format!("| L001 | Redo (Lemon, §1) | {state} | {remark} | {test} | {page} |");
        faults(&rows(&line)[0])
    };
    let test = format!("`{test}`");
    assert_eq!(faults_of("works", "", &test), Vec::<String>::new());
    assert_eq!(faults_of("works", "by `Lemon`", &test), Vec::<String>::new());
    for (state, remark, test) in [
        ("works", "", ""),
        ("partial", "", test.as_str()),
        ("missing", "", &test),
        ("done", "", &test),
        ("works", "`1,000` a second", &test),
    ] {
        assert_eq!(faults_of(state, remark, test).len(), 1, "{state}, {remark}, {test}");
    }
    assert_eq!(wrong_numbers(&rows("| L001 | a | works | | | |\n| L001 | a | works | | | |")).len(), 274);
}

#[test]
fn a_reference_to_no_test_is_seen() {
    let here = "tests/lint/features.rs";
    assert_eq!(broken_test(&format!("{here}::a_reference_to_no_test_is_seen")), None);
    assert!(broken_test(&format!("{here}::no_such_test")).is_some());
    assert!(broken_test(&format!("{here}::broken_test")).is_some(), "a helper");
    let java = "java/oracle-server/src/test/java/cedrat/oracle/state/StatusOracleTest.java";
    assert_eq!(broken_test(&format!("{java}::aPhantomAborts")), None);
    assert!(broken_test(&format!("{java}::forgetRows")).is_some(), "no test");
    assert!(broken_test("tests/lint/missing.rs::a").is_some());
    assert!(broken_test("a").is_some());
}
