//! The language of the repository: openings of documentation comments, words, names of functions and tests, long sentences.
//!
//! The rules are in CONTRIBUTING.md, their patterns in `language.txt`.

use cedrat_tests::{SourceFile, root, sources};

/// Longest sentence of a user page, in words.
const SENTENCE_WORDS_MAX: usize = 35;

/// Longest name of a test, in words.
const TEST_NAME_WORDS_MAX: usize = 7;

/// First words of functions that answer a question and change nothing.
const QUESTIONS: [&str; 4] = ["is", "has", "may", "can"];

/// Patterns of `language.txt`.
struct Rules {
    words: Vec<String>,
    openings: Vec<String>,
    /// First words that no test name has.
    names: Vec<String>,
}

impl Rules {
    fn read() -> Rules {
        let text = std::fs::read_to_string(root().join("tests/lint/language.txt")).expect("the rules");
        let of = |kind: &str| text.lines().filter_map(|line| line.strip_prefix(kind)).map(String::from).collect();
        Rules { words: of("word "), openings: of("opening "), names: of("name ") }
    }

    /// Number of banned words in a line, those within identifiers included.
    fn banned_words(&self, line: &str) -> usize {
        let line = words_apart(line);
        self.words.iter().map(|word| whole_words(&line, word)).sum()
    }

    fn is_bad_test_name(&self, name: &str) -> bool {
        let words = words_apart(name);
        let first = words.split(' ').next().unwrap_or("");
        words.split(' ').count() > TEST_NAME_WORDS_MAX || self.names.iter().any(|banned| banned == first)
    }

    fn is_banned_opening(&self, text: &str) -> bool {
        self.openings.iter().any(|opening| {
            text.strip_prefix(opening.as_str()).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
        })
    }
}

/// `text` in small letters, with a space between the words of each identifier in snake case or camel case.
fn words_apart(text: &str) -> String {
    let mut apart = String::with_capacity(text.len() + text.len() / 8);
    let mut before_is_small = false;
    for c in text.chars() {
        if before_is_small && c.is_uppercase() {
            apart.push(' ');
        }
        before_is_small = c.is_lowercase() || c.is_ascii_digit();
        apart.extend(if c == '_' { ' ' } else { c }.to_lowercase());
    }
    apart
}

/// Occurrences of `word` in `line` that are not part of a longer word.
fn whole_words(line: &str, word: &str) -> usize {
    line.match_indices(word)
        .filter(|(at, _)| {
            !line[..*at].ends_with(char::is_alphanumeric) && !line[at + word.len()..].starts_with(char::is_alphanumeric)
        })
        .count()
}

/// Text of a documentation comment's line, without its marks.
fn documentation(line: &str) -> Option<&str> {
    let line = line.trim();
    ["///", "//!", "/**"]
        .iter()
        .find_map(|mark| line.strip_prefix(mark))
        .or_else(|| line.strip_prefix('*').filter(|rest| !rest.starts_with('/')))
        .map(str::trim_start)
}

/// Violations of one file: kind, line number (0 for a whole page), and the text.
fn violations(rules: &Rules, file: &SourceFile) -> Vec<(&'static str, usize, String)> {
    let mut found = Vec::new();
    let code = !file.name.ends_with(".md");
    let mut before = "";
    for (number, line) in file.text.lines().enumerate() {
        let mut add = |kind| found.push((kind, number + 1, line.trim().to_string()));
        for _ in 0..rules.banned_words(line) {
            add("word");
        }
        if code {
            let opens = line.trim().starts_with("/**") || documentation(before).is_none_or(str::is_empty);
            if documentation(line).is_some_and(|text| opens && rules.is_banned_opening(text)) {
                add("opening");
            }
            if is_changing_question(line) && before.trim() != "@Override" {
                add("mutator");
            }
            if test_name(before, line).is_some_and(|name| rules.is_bad_test_name(name)) {
                add("name");
            }
        }
        before = line;
    }
    if !code && is_user_page(&file.name) {
        found.extend(long_sentences(&file.text).into_iter().map(|sentence| ("sentence", 0, sentence)));
    }
    found
}

/// Whether this line begins a function whose name is a question, but which changes something or returns nothing.
fn is_changing_question(line: &str) -> bool {
    let code = line.trim_start();
    if code.starts_with("//") {
        return false;
    }
    let (name, changes) = if let Some((_, rest)) = code.split_once("fn ") {
        let returns_nothing = rest.trim_end().ends_with('{') && !rest.contains("->") && rest.contains(')');
        (rest, rest.contains("(&mut self") || returns_nothing)
    } else if let Some((_, rest)) = code.split_once("void ").filter(|(_, rest)| rest.contains('(')) {
        (rest, true)
    } else {
        return false;
    };
    let name = words_apart(name.split(['(', '<']).next().unwrap_or(""));
    changes && name.split_once(' ').is_some_and(|(first, _)| QUESTIONS.contains(&first))
}

/// Name of the test function that this line begins.
fn test_name<'a>(before: &str, line: &'a str) -> Option<&'a str> {
    let line = line.trim();
    let before = before.trim();
    if before.starts_with("#[test") {
        return line.strip_prefix("fn ")?.split('(').next();
    }
    let is_java_test = before.starts_with("@Test") || before.starts_with("@ParameterizedTest");
    line.strip_prefix("void ").filter(|_| is_java_test)?.split('(').next()
}

fn is_user_page(name: &str) -> bool {
    name.contains("docs/use/") || ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].contains(&name)
}

/// Sentences of a page that are too long. Table rows and code are not sentences.
fn long_sentences(page: &str) -> Vec<String> {
    let prose: Vec<&str> = page.split("```").step_by(2).collect();
    let mut blocks = vec![String::new()];
    for line in prose.join("\n\n").lines() {
        let line = line.trim();
        let begins = line.is_empty() || line.starts_with('|') || line.starts_with("- ") || line.starts_with('#');
        if begins {
            blocks.push(String::new());
        }
        if !line.starts_with('|') {
            let block = blocks.last_mut().expect("there is a block");
            *block += line;
            *block += " ";
        }
    }
    let mut found = Vec::new();
    for block in blocks {
        let mut sentence = Vec::new();
        for word in block.split_whitespace() {
            sentence.push(word);
            if word.ends_with(['.', '!', '?', ':']) {
                if sentence.len() > SENTENCE_WORDS_MAX {
                    found.push(sentence.join(" "));
                }
                sentence.clear();
            }
        }
        if sentence.len() > SENTENCE_WORDS_MAX {
            found.push(sentence.join(" "));
        }
    }
    found
}

#[test]
fn repository_follows_language_rules() {
    let rules = Rules::read();
    let mut all = Vec::new();
    for file in sources(&[".rs", ".java", ".h", ".c", ".md", "x"]) {
        for (kind, line, text) in violations(&rules, &file) {
            all.push(format!("{}:{line}: {kind}: {text}", file.name));
        }
    }
    assert!(all.is_empty(), "rules: tests/lint/language.txt and CONTRIBUTING.md\n{}", all.join("\n"));
}

#[test]
fn each_kind_of_violation_is_found() {
    let rules = Rules {
        words: vec!["old tale".to_string()],
        openings: vec!["What".to_string()],
        names: vec!["what".to_string()],
    };
    // `fn` apart, since this file follows the rules too.
    let rust = [
        "/// What it is.\nfn",
        "is_old(&mut self) -> bool {}\n// An Old Tale, old tales\n/// Whatever\nfn",
        "has_run(a: u8) {\n",
    ];
    let rust = rust.join(" ");
    let tests = "#[test]\nfn one_two_three_four_five_six_seven_eight() {\n";
    let file = |name: &str, text: String| SourceFile { name: name.to_string(), text };
    let kinds = |file: &SourceFile| violations(&rules, file).into_iter().map(|(kind, ..)| kind).collect::<Vec<_>>();
    assert_eq!(kinds(&file("a.rs", rust)), ["opening", "mutator", "word", "mutator"]);
    assert_eq!(kinds(&file("a.rs", tests.to_string())), ["name"]);
    let java = ["vo", "id isOld() {\n@Test\nvoid whatIsOld() {\nint thisOldTale;\n"].concat();
    assert_eq!(kinds(&file("A.java", java)), ["mutator", "name", "word"]);
    let long = ["word"; SENTENCE_WORDS_MAX + 1].join(" ");
    assert_eq!(kinds(&file("docs/use/a.md", format!("{long}.\n\n| {long} |\n"))), ["sentence"]);
}
