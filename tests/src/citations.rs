//! The texts in which code cites invariants: documentation of tests, and messages of assertions, in Rust and in Java.

use crate::SourceFile;

/// A text that cites invariants if it contains their numbers.
#[derive(Clone, Debug)]
pub struct Citation {
    /// Path of the file from the root.
    pub file: String,
    /// Language of the file.
    pub language: Language,
    /// The test that the text belongs to; `None` for an assertion outside of tests.
    pub test: Option<String>,
    /// The text: a documentation comment, or the message of an assertion.
    pub text: String,
}

/// A programming language of the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Files `*.rs`.
    Rust,
    /// Files `*.java`.
    Java,
}

/// Annotations of tests in Java; in Rust it is the attribute `test`.
const TESTS_OF_JAVA: [&str; 5] = ["Test", "Property", "ParameterizedTest", "RepeatedTest", "TestFactory"];

/// Returns whether the arguments of this macro or function are an assertion, of which a string is the message.
fn is_assertion(name: &str) -> bool {
    name.to_ascii_lowercase().contains("assert") || ["expect", "panic", "unreachable", "fail"].contains(&name)
}

/// Returns the texts of a file in which a number is a citation.
pub fn citations(file: &SourceFile) -> Vec<Citation> {
    let language = if file.name.ends_with(".java") { Language::Java } else { Language::Rust };
    let tokens = tokens(&file.text, language);
    let mut reader =
        Reader { language, found: Vec::new(), item: Item::default(), test: None, braces: 0, calls: Vec::new() };
    let mut at = 0;
    while at < tokens.len() {
        at = reader.read(&tokens, at);
    }
    let of_test = |(test, text)| Citation { file: file.name.clone(), language, test, text };
    reader.found.into_iter().map(of_test).collect()
}

/// A part of a source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'t> {
    /// A line of a documentation comment.
    Documentation(&'t str),
    /// A string.
    Text(&'t str),
    /// A name or a keyword.
    Word(&'t str),
    /// Any other character that is not blank.
    Mark(char),
}

/// Comments and attributes in front of an item.
#[derive(Default)]
struct Item<'t> {
    documentation: Vec<&'t str>,
    is_test: bool,
    /// Name of the test that it is.
    name: Option<&'t str>,
}

/// State of a pass over the tokens of a file.
struct Reader<'t> {
    language: Language,
    /// Texts, with the tests that they belong to.
    found: Vec<(Option<String>, String)>,
    item: Item<'t>,
    /// The test that is read, and the number of braces around it.
    test: Option<(&'t str, usize)>,
    braces: usize,
    /// Names in front of the open parentheses.
    calls: Vec<&'t str>,
}

impl<'t> Reader<'t> {
    /// Reads the token at this place, and returns the place of the next one.
    fn read(&mut self, tokens: &[Token<'t>], at: usize) -> usize {
        let next = tokens.get(at + 1).copied();
        match tokens[at] {
            Token::Documentation(line) => self.item.documentation.push(line),
            Token::Text(text) => {
                if self.calls.iter().any(|name| is_assertion(name)) {
                    self.found.push((self.test.map(|(name, _)| name.to_string()), text.to_string()));
                }
            }
            Token::Mark('#') if self.language == Language::Rust && next == Some(Token::Mark('[')) => {
                self.item.is_test |= tokens.get(at + 2) == Some(&Token::Word("test"));
                return end_of_group(tokens, at + 1, ['[', ']']);
            }
            Token::Mark('@') if self.language == Language::Java => {
                let Some(Token::Word(name)) = next else { return at + 1 };
                self.item.is_test |= TESTS_OF_JAVA.contains(&name);
                let has_arguments = tokens.get(at + 2) == Some(&Token::Mark('('));
                return if has_arguments { end_of_group(tokens, at + 2, ['(', ')']) } else { at + 2 };
            }
            Token::Word(name) if self.item.is_test && self.item.name.is_none() && next == Some(Token::Mark('(')) => {
                self.item.name = Some(name);
            }
            Token::Word(_) => {}
            Token::Mark('(') => {
                let name = tokens[..at].iter().rev().find(|token| **token != Token::Mark('!'));
                self.calls.push(if let Some(Token::Word(name)) = name { name } else { "" });
            }
            Token::Mark(')') => drop(self.calls.pop()),
            Token::Mark('{') => self.begin_block(),
            Token::Mark('}') => {
                self.braces = self.braces.saturating_sub(1);
                self.test = self.test.filter(|(_, braces)| *braces < self.braces);
                self.item = Item::default();
            }
            Token::Mark(';') => self.item = Item::default(),
            Token::Mark(_) => {}
        }
        at + 1
    }

    /// Begins a block, which may be the body of a test: its documentation cites, too.
    fn begin_block(&mut self) {
        let item = std::mem::take(&mut self.item);
        if let (Some(name), None) = (item.name, self.test) {
            self.test = Some((name, self.braces));
            self.found.push((Some(name.to_string()), item.documentation.join(" ")));
        }
        self.braces += 1;
    }
}

/// Returns the place behind the group that begins at this one.
fn end_of_group(tokens: &[Token<'_>], begin: usize, marks: [char; 2]) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(begin) {
        if *token == Token::Mark(marks[0]) {
            depth += 1;
        } else if *token == Token::Mark(marks[1]) {
            depth -= 1;
            if depth == 0 {
                return at + 1;
            }
        }
    }
    tokens.len()
}

/// Divides a source text into tokens.
fn tokens(text: &str, language: Language) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (token, length) = token(rest, first, language);
        tokens.extend(token);
        rest = &rest[length..];
    }
    tokens
}

/// Returns the token at the beginning of `text`, if it is one, and the number of its bytes.
fn token(text: &str, first: char, language: Language) -> (Option<Token<'_>>, usize) {
    let until = |end: &str, from: usize| text[from..].find(end).map_or(text.len(), |at| from + at + end.len());
    if text.starts_with("//") {
        let length = text.find('\n').unwrap_or(text.len());
        let line = text[..length].strip_prefix("///").filter(|line| !line.starts_with('/'));
        return (line.map(|line| Token::Documentation(line.trim())), length);
    }
    if text.starts_with("/*") {
        let length = until("*/", 2);
        return (text.starts_with("/**").then_some(Token::Documentation(&text[..length])), length);
    }
    if language == Language::Java && text.starts_with("\"\"\"") {
        let length = until("\"\"\"", 3);
        return (Some(Token::Text(&text[..length])), length);
    }
    if language == Language::Rust
        && let Some(hashes) = hashes_of_raw_string(text)
    {
        let length = until(&format!("\"{}", "#".repeat(hashes)), hashes + 2);
        return (Some(Token::Text(&text[..length])), length);
    }
    match first {
        '"' => {
            let length = end_of_quoted(text, '"');
            (Some(Token::Text(&text[..length])), length)
        }
        '\'' if is_character(text) => (None, end_of_quoted(text, '\'')),
        first if is_of_word(first) => {
            let length = text.find(|c| !is_of_word(c)).unwrap_or(text.len());
            (Some(Token::Word(&text[..length])), length)
        }
        first => ((!first.is_whitespace()).then_some(Token::Mark(first)), first.len_utf8()),
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the number of `#` of the raw string that begins here.
fn hashes_of_raw_string(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('r')?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    rest[hashes..].starts_with('"').then_some(hashes)
}

/// Returns whether a quote begins a character, and not a lifetime.
fn is_character(text: &str) -> bool {
    let mut chars = text.chars().skip(1);
    chars.next() == Some('\\') || chars.next() == Some('\'')
}

/// Returns the place behind the quote that ends a string or a character.
fn end_of_quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if !escaped && c == quote {
            return at + 1;
        }
        escaped = !escaped && c == '\\';
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, text: &str) -> Vec<(Option<String>, String)> {
        let file = SourceFile { name: name.to_string(), text: text.to_string() };
        let found = citations(&file).into_iter().filter(|citation| citation.text.contains('E'));
        found.map(|citation| (citation.test, citation.text)).collect()
    }

    #[test]
    fn comments_and_other_texts_cite_nothing() {
        let text = "//! E1\n/// E2\nfn helper() { call(\"E3\"); } // E4\n/// E5\n#[cfg(test)]\nmod tests {\n    // E6\n    #[test]\n    \
                    fn test() { f('\"', \"E7\") /* E8 */ }\n}\n";
        assert_eq!(of("a.rs", text), []);
        assert_eq!(
            of("A.java", "/// E1\nclass A { /// E2\n String a = \"E3\"; @Test void test() { call('\"', \"E4\"); } }"),
            []
        );
    }

    #[test]
    fn documentation_and_messages_of_tests_cite() {
        let text = "/// About E1.\n#[test]\n#[cfg(unix)]\nfn first() { let x: &'static str; assert!(x == (1), \"E2\"); }\n/// E3\nfn next() { \
                    assert_eq!(1, f(2), r#\"E4 \"#); }\n#[test]\nfn last() { open().expect(\"E5\"); }\n";
        let first = Some("first".to_string());
        let wanted = [
            (first.clone(), "About E1.".to_string()),
            (first, "\"E2\"".to_string()),
            (None, "r#\"E4 \"#".to_string()),
            (Some("last".to_string()), "\"E5\"".to_string()),
        ];
        assert_eq!(of("a.rs", text), wanted);
    }

    #[test]
    fn tests_of_java_cite() {
        let text = "class A {\n /// E1\n @ParameterizedTest(name = \"E9\")\n @ValueSource(ints = {1, 2})\n void first(int i) { if \
                    (i > 0) { } assertTrue(f(), \"E2\" + i); }\n /** E3 */ void other() { }\n}\n";
        let first = Some("first".to_string());
        assert_eq!(of("A.java", text), [(first.clone(), "E1".to_string()), (first, "\"E2\"".to_string())]);
    }
}
