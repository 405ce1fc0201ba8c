//! The trials behind [`Rule`].

use cedrat_pages::{Damaged, PAGE_LEN, PageBuf, PageId, PageMut, Slot};
use cedrat_txn::{Operation, RecordId, Rehearsal, Undo};
use cedrat_wal::Lsn;

use super::{Broken, OperationCheck, Rule, Tried};
use crate::probe::quietly;
use crate::rng::Rng;

/// A rule, and what was seen of its being broken.
type Wrong = (Rule, String);

/// Operations performed one after another on one page, and undone in the opposite order, at most.
const SEQUENCE_MAX: u64 = 6;

/// The LSN at which the page of a trial is formatted; the records of the trial follow it.
const FORMATTED: Lsn = Lsn::new(1);

/// An operation that was performed: what undoes it, and the page before.
struct Performed {
    undo: Undo,
    at: Slot,
    before: PageBuf,
}

impl<O: Operation> OperationCheck<O> {
    pub(super) fn all_rules(&self) -> Result<Tried, Broken> {
        let mut tried = Tried::default();
        let mut results = Vec::new();
        for case in self.cases.clone() {
            let named = |wrong| self.broken(case, wrong);
            if let Some(digest) = self.forth_and_back(case, &mut tried).map_err(named)? {
                results.push((case, digest));
            }
            self.garbage(case, &mut tried).map_err(named)?;
        }
        self.elsewhere(&results)?;
        Ok(tried)
    }

    fn broken(&self, case: u64, (rule, seen): Wrong) -> Broken {
        Broken { operation: O::NAME, rule, seed: self.seed, case, seen }
    }

    /// The chance of a case, which makes its pages and arguments again.
    fn chance(&self, case: u64) -> Rng {
        Rng::new(self.seed).part(case)
    }

    fn fresh_page(&self, chance: &mut Rng) -> PageBuf {
        let mut page = PageBuf::new(PageId::new(1 + chance.below(1_000)));
        page.change(FORMATTED, |page| (self.format)(chance, page));
        page
    }

    /// Performs some operations on one page, each under all rules, then undoes them, last first.
    ///
    /// Returns a digest of the page after the first one, for [`OperationCheck::elsewhere`].
    fn forth_and_back(&self, case: u64, tried: &mut Tried) -> Result<Option<u64>, Wrong> {
        let mut chance = self.chance(case);
        let mut page = self.fresh_page(&mut chance);
        let mut performed: Vec<Performed> = Vec::new();
        let mut digest = None;
        let mut lsn = FORMATTED;
        for number in 0..1 + chance.below(SEQUENCE_MAX) {
            let (operation, at) = (self.arguments)(&mut chance, &page.page_ref());
            let Ok(undo) = operation.prepare(&page.page_ref(), at) else {
                tried.refused += 1;
                continue;
            };
            let before = page.clone();
            lsn = lsn.next();
            self.redo_is_a_function(&operation, &mut page, at, lsn)?;
            if number == 0 {
                digest = Some(digest_of(&page));
            }
            let undo = match undo.is_derived() {
                true => operation.derive_undo(RecordId::new(page.page_ref().id(), at)),
                false => undo,
            };
            performed.push(Performed { undo, at, before });
            tried.performed += 1;
        }
        while let Some(last) = performed.pop() {
            lsn = lsn.next();
            match self.undone(&last, &mut page, lsn)? {
                true => {}
                // Not to be undone alone, so neither are those before it.
                false => break,
            }
        }
        Ok(digest)
    }

    /// Encoding, determinism, no refusal; leaves `page` changed.
    fn redo_is_a_function(&self, operation: &O, page: &mut PageBuf, at: Slot, lsn: Lsn) -> Result<(), Wrong> {
        let decoded = through_the_log(operation)?;
        let before = page.clone();
        redo(operation, page, at, lsn)?;
        let mut again = before.clone();
        redo(operation, &mut again, at, lsn)?;
        same(page, &again, Rule::Deterministic, "redo of the same on the same left different bytes")?;
        let mut first = before.clone();
        apply(&mut first, lsn, Rule::RefusesInPrepare, |page| operation.first(page, at))?;
        same(page, &first, Rule::Deterministic, "the first execution leaves other bytes than redo")?;
        let mut from_log = before.clone();
        redo(&decoded, &mut from_log, at, lsn)?;
        same(page, &from_log, Rule::Encoding, "the decoded operation leaves other bytes than the encoded one")?;
        Ok(())
    }

    /// Undoes one operation and compares. False if it has no undo that could be tried on one page.
    fn undone(&self, last: &Performed, page: &mut PageBuf, lsn: Lsn) -> Result<bool, Wrong> {
        let tried = apply(page, lsn, Rule::UndoRestores, |page| last.undo.rehearse(&self.registry, page, last.at))?;
        match tried {
            Rehearsal::Undone => {}
            Rehearsal::NotOnOnePage => return Ok(false),
            Rehearsal::Unregistered(name) => {
                return Err((
                    Rule::UndoRestores,
                    format!("its undo {name} is not registered; name it with .registry(…)"),
                ));
            }
            Rehearsal::BadArguments(name) => {
                return Err((Rule::UndoRestores, format!("the arguments of its undo {name} cannot be read back")));
            }
        }
        if !(self.equal)(&last.before.page_ref(), &page.page_ref()) {
            return Err((
                Rule::UndoRestores,
                format!(
                    "after undo by {} the page differs from the one before, first at byte {}",
                    last.undo.describe(),
                    first_difference(&last.before, page).unwrap_or(0)
                ),
            ));
        }
        Ok(true)
    }

    /// The first operation of each case once more: later, in another thread, in another order, read back from its encoding,
    /// without `prepare` before it. What it leaves must be the same.
    fn elsewhere(&self, results: &[(u64, u64)]) -> Result<(), Broken> {
        let first_again = |case: u64| -> Result<u64, Wrong> {
            let mut chance = self.chance(case);
            let mut page = self.fresh_page(&mut chance);
            let _ = chance.below(SEQUENCE_MAX);
            let (operation, at) = (self.arguments)(&mut chance, &page.page_ref());
            redo(&through_the_log(&operation)?, &mut page, at, FORMATTED.next())?;
            Ok(digest_of(&page))
        };
        std::thread::scope(|scope| {
            let other_thread = scope.spawn(|| {
                for (case, digest) in results.iter().rev() {
                    let again = first_again(*case).map_err(|wrong| self.broken(*case, wrong))?;
                    if again != *digest {
                        let seen = "elsewhere (later, in another thread, in another order, without prepare) redo of the \
                                    same on the same leaves other bytes: it depends on something outside its page";
                        return Err(self.broken(*case, (Rule::OnlyItsPage, seen.to_string())));
                    }
                }
                Ok(())
            });
            other_thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Pages that hold anything: noise, a good page with some bytes wrong, a page of zeros.
    fn garbage(&self, case: u64, tried: &mut Tried) -> Result<(), Wrong> {
        let mut chance = self.chance(case).part(0x6a5b);
        let good = self.fresh_page(&mut chance);
        let (operation, at) = (self.arguments)(&mut chance, &good.page_ref());
        let mut bytes = *good.page_ref().bytes();
        match case % 4 {
            0 => bytes = [0; PAGE_LEN],
            1 => chance.fill(&mut bytes),
            _ => {
                for _ in 0..1 + chance.below(16) {
                    let byte = chance.index(PAGE_LEN);
                    bytes[byte] = *chance.pick(&[0, 1, 0x7f, 0x80, 0xff, byte as u8]);
                }
            }
        }
        let garbage = PageBuf::from_bytes(good.page_ref().id(), &bytes);
        tried.garbage += 1;
        let outcome = quietly(|| {
            let prepared = operation.prepare(&garbage.page_ref(), at);
            let mut page = garbage.clone();
            // It may find the page damaged, or change what means nothing; both are fine.
            let _ = page.change(FORMATTED.next(), |page| operation.redo(page, at));
            if let Ok(undo) = prepared {
                let mut page = garbage.clone();
                let _ = page.change(FORMATTED.next(), |page| undo.rehearse(&self.registry, page, at));
            }
        });
        outcome.map_err(|words| (Rule::NeverPanics, format!("on a page of garbage: {words}")))
    }
}

/// The operation as it is read from the log.
fn through_the_log<O: Operation>(operation: &O) -> Result<O, Wrong> {
    let encoding = |what: &str| (Rule::Encoding, what.to_string());
    let bytes = postcard::to_stdvec(operation).map_err(|error| encoding(&format!("it cannot be encoded: {error}")))?;
    let (decoded, rest) = postcard::take_from_bytes::<O>(&bytes)
        .map_err(|error| encoding(&format!("its encoding cannot be read back: {error}")))?;
    if !rest.is_empty() {
        return Err(encoding("decoding leaves bytes over"));
    }
    match postcard::to_stdvec(&decoded) {
        Ok(again) if again == bytes => Ok(decoded),
        _ => Err(encoding("the decoded operation encodes to other bytes")),
    }
}

fn redo<O: Operation>(operation: &O, page: &mut PageBuf, at: Slot, lsn: Lsn) -> Result<(), Wrong> {
    apply(page, lsn, Rule::RefusesInPrepare, |page| operation.redo(page, at))
}

/// Changes `page`; an error or a panic on a good page breaks `rule`.
fn apply<T>(
    page: &mut PageBuf,
    lsn: Lsn,
    rule: Rule,
    change: impl FnOnce(&mut PageMut<'_>) -> Result<T, Damaged>,
) -> Result<T, Wrong> {
    match quietly(|| page.change(lsn, change)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(damaged)) => Err((rule, format!("what prepare accepted fails: {damaged}"))),
        Err(words) => Err((rule, format!("it panics: {words}"))),
    }
}

fn same(one: &PageBuf, other: &PageBuf, rule: Rule, what: &str) -> Result<(), Wrong> {
    match first_difference(one, other) {
        None => Ok(()),
        Some(byte) => Err((rule, format!("{what}, first at byte {byte}"))),
    }
}

fn first_difference(one: &PageBuf, other: &PageBuf) -> Option<usize> {
    let (one, other) = (one.page_ref(), other.page_ref());
    let mut both = one.bytes().iter().zip(other.bytes());
    both.position(|(a, b)| a != b)
}

fn digest_of(page: &PageBuf) -> u64 {
    xxhash_rust::xxh3::xxh3_64(page.page_ref().bytes())
}
