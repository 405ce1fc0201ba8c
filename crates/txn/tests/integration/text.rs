//! Scripted sessions with a store: commands, and below the line the answers.
//!
//! Each file in `tests/text/` is a script. `UPDATE=1 cargo test -p cedrat-txn --test integration text::` rewrites the text
//! below the lines; read the difference before you keep it.
//!
//! | command | meaning |
//! |---|---|
//! | `tN add PAGE.SLOT AMOUNT` | a change of one page; `tN` begins with its first command |
//! | `tN both PAGE.SLOT PAGE.SLOT AMOUNT` | a nested top action: the first change stays, the second is undone |
//! | `tN savepoint`, `tN back` | takes a savepoint, and returns to it |
//! | `tN commit`, `tN commit async`, `tN rollback` | ends |
//! | `force`, `checkpoint` | of the log; of the store |
//! | `numbers` | the values of the pages, without zeros |
//! | `log` | the records since the last `log` |
//! | `crash`, `open` | everything not durable is lost; recovery |
//! | `crash while opening N` | the power fails at the N-th write of recovery |

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cedrat_media::{Call, Fault, Loss, SimDisk};
use cedrat_pages::PageId;
use cedrat_sync::Arc;
use cedrat_txn::{Commit, Explainer, Options, RecordId, Result, Savepoint, Store, Txn, Undo};
use cedrat_wal::{Kind, Log, Lsn};

use crate::common::*;

/// All redo before the opening ends, so that its records are counted.
fn options_of_scripts() -> Options {
    Options { redo_on_demand_bytes: u64::MAX, ..options() }
}

struct Conversation {
    disk: Arc<SimDisk>,
    store: Option<Store>,
    pages: BTreeMap<char, PageId>,
    open: BTreeMap<String, (Txn, Option<Savepoint>)>,
    /// The number of each name.
    names: BTreeMap<u64, String>,
    shown: Lsn,
}

impl Conversation {
    fn new() -> Conversation {
        let disk = Arc::new(SimDisk::new());
        let store = open(&disk).unwrap();
        let pages = store
            .transact(|txn| ['a', 'b'].into_iter().map(|name| Ok((name, page_with_zeros(txn)?))).collect())
            .unwrap();
        store.checkpoint().unwrap();
        let shown = store.log().current_lsn();
        Conversation { disk, pages, shown, store: Some(store), open: BTreeMap::new(), names: BTreeMap::new() }
    }

    fn place(&self, word: &str) -> RecordId {
        let (page, slot) = word.split_once('.').expect("PAGE.SLOT");
        at(self.pages[&page.chars().next().unwrap()], slot.parse().unwrap())
    }

    fn say(&mut self, line: &str) -> Result<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let store = self.store.clone();
        match words[..] {
            ["force"] => {
                let store = store.unwrap();
                store.log().force(store.log().current_lsn())?;
            }
            ["checkpoint"] => store.unwrap().checkpoint()?,
            ["numbers"] => return self.numbers(&store.unwrap()),
            ["log"] => return self.log(store.unwrap().log()),
            ["crash"] => {
                drop(store);
                self.crash();
            }
            ["crash", "while", "opening", count] => {
                drop(store);
                let calls: u64 = count.parse().unwrap();
                self.disk.inject(Fault::power_loss(Call::Write).nth(calls));
                assert!(open_with(&self.disk, options_of_scripts()).is_err(), "the power fails");
                self.crash();
            }
            ["open"] => {
                let options = Options { checkpoint_when_opened: false, ..options_of_scripts() };
                let store = open_with(&self.disk, options)?;
                let report = store.recovery();
                let answer = format!(
                    "records {}  winners {}  rolled back {}  losers {}\nredone {}  undone {}\n",
                    report.records, report.winners, report.rolled_back, report.losers, report.redone, report.undone
                );
                self.store = Some(store);
                return Ok(answer);
            }
            [name, ref rest @ ..] if name.starts_with('t') => return self.transaction(name, rest),
            _ => panic!("not understood: {line}"),
        }
        Ok(String::new())
    }

    fn crash(&mut self) {
        let found = Arc::new(self.disk.cut_power(Loss::Everything));
        // The old store continues to write to a disk that is discarded.
        self.open.clear();
        self.store = None;
        self.disk = found;
    }

    fn transaction(&mut self, name: &str, words: &[&str]) -> Result<String> {
        if !self.open.contains_key(name) {
            let txn = self.store.as_ref().unwrap().begin();
            self.names.insert(txn.id().0, name.to_owned());
            self.open.insert(name.to_owned(), (txn, None));
        }
        match *words {
            ["commit", ref how @ ..] => {
                let (txn, _) = self.open.remove(name).unwrap();
                txn.commit(if how.is_empty() { Commit::Sync } else { Commit::Async })?;
                return Ok(String::new());
            }
            ["rollback"] => {
                self.open.remove(name).unwrap().0.rollback()?;
                return Ok(String::new());
            }
            _ => {}
        }
        let places: Vec<RecordId> =
            words.iter().filter(|word| word.contains('.')).map(|word| self.place(word)).collect();
        let (txn, savepoint) = self.open.get_mut(name).unwrap();
        match *words {
            ["add", _, amount] => txn.update_latched(places[0], &Add { amount: amount.parse().unwrap() })?,
            ["both", _, _, amount] => {
                let amount: i64 = amount.parse().unwrap();
                txn.nested((), |txn| {
                    txn.update(places[0], &Add { amount: -amount })?;
                    txn.update(places[1], &Add { amount })?;
                    let back = Subtract { page: places[1].page.get(), slot: places[1].slot.0, amount };
                    Ok(((), Undo::logical(&back)))
                })?;
            }
            ["savepoint"] => *savepoint = Some(txn.savepoint()),
            ["back"] => txn.rollback_to(savepoint.expect("a savepoint"))?,
            _ => panic!("not understood: {words:?}"),
        }
        Ok(String::new())
    }

    fn numbers(&self, store: &Store) -> Result<String> {
        let mut answer = String::new();
        for (name, &page) in &self.pages {
            for slot in 0..8 {
                let number = read_number(store, at(page, slot))?;
                if number != 0 {
                    writeln!(answer, "{name}.{slot} = {number}").unwrap();
                }
            }
        }
        Ok(if answer.is_empty() { "all zero\n".into() } else { answer })
    }

    fn log(&mut self, log: &Log) -> Result<String> {
        log.force(log.current_lsn())?;
        let explainer = Explainer::new(&registry(), &log.control().names);
        let mut answer = String::new();
        let mut scan = log.scan(self.shown.next())?;
        // The LSN of each record's position, for printing positions.
        let mut lsns = BTreeMap::new();
        while let Some(scanned) = scan.next()? {
            let record = scanned.record;
            self.shown = record.lsn;
            lsns.insert(record.position.offset, record.lsn);
            let explained = explainer.explain(&record).unwrap();
            let kind = match record.head.kind {
                Kind::UPDATE => "update",
                Kind::COMPENSATION => "compensation",
                Kind::COMMIT => "commit",
                Kind::ROLLBACK_END => "rolled back",
                Kind::NESTED_END => "nested end",
                _ => "other",
            };
            let who = self.names.get(&record.head.txn.0).map_or("?", String::as_str);
            write!(answer, "{:>4}  {who} {kind}", record.lsn.get()).unwrap();
            if let Some(place) = explained.at {
                let page = self.pages.iter().find(|(_, page)| **page == place.page);
                let page = page.map_or_else(|| place.page.to_string(), |(name, _)| name.to_string());
                write!(answer, " {page}.{}", place.slot).unwrap();
            }
            if let Some(arguments) = explained.arguments {
                write!(answer, " {arguments}").unwrap();
            }
            if let Some(undo) = explained.undo {
                write!(answer, "  undo: {undo}").unwrap();
            }
            if matches!(record.head.kind, Kind::COMPENSATION | Kind::NESTED_END) {
                match explained.undo_next {
                    None => answer += "  next to undo: none",
                    Some(place) => match lsns.get(&place) {
                        Some(lsn) => write!(answer, "  next to undo: {lsn}").unwrap(),
                        None => answer += "  next to undo: before these",
                    },
                }
            }
            answer.push('\n');
        }
        Ok(answer)
    }
}

fn run(script: &str) -> String {
    let mut conversation = Conversation::new();
    let mut answers = String::new();
    for line in script.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match conversation.say(line) {
            Ok(answer) => answers += &answer,
            Err(error) => writeln!(answers, "{line}: {error}").unwrap(),
        }
    }
    answers
}

#[test]
fn conversations_are_as_they_were() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/text");
    let mut files: Vec<_> = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    let mut changed = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let (script, expected) = text.split_once("----\n").unwrap_or((&text, ""));
        let answers = run(script);
        if answers != expected {
            if std::env::var_os("UPDATE").is_some() {
                std::fs::write(&file, format!("{script}----\n{answers}")).unwrap();
            } else {
                changed.push(format!("{}:\n{answers}", file.display()));
            }
        }
    }
    assert!(changed.is_empty(), "answered otherwise:\n{}", changed.join("\n"));
}
