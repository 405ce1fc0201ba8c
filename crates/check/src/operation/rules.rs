//! The tests of each [`Rule`].

use cedrat_pages::{BODY_LEN, Damaged, LayoutKind, PAGE_LEN, PageBuf, PageId, PageMut, PageRef, Slot};
use cedrat_txn::{Operation, RecordId, Refused, Rehearsal, Undo};
use cedrat_wal::Lsn;

use super::{Broken, OperationCheck, Rule, Tried};
use crate::probe::quietly;
use crate::rng::Rng;

/// A rule, and a description of its violation.
type Wrong = (Rule, String);

/// Largest number of operations that are performed one after another on one page, and undone in the opposite order.
const SEQUENCE_MAX: u64 = 6;

/// The LSN at which the page of a trial is formatted; the records of the trial follow it.
const FORMATTED: Lsn = Lsn::new(1);

/// A performed operation: its undo, and the page before it.
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
            let digest = self.timed(case, || self.one_case(case, &mut tried));
            if let Some(digest) = digest.map_err(|wrong| self.broken(case, wrong))? {
                results.push((case, digest));
            }
        }
        self.encodings().map_err(|wrong| self.broken(0, wrong))?;
        self.elsewhere(&results)?;
        Ok(tried)
    }

    fn one_case(&self, case: u64, tried: &mut Tried) -> Result<Option<u64>, Wrong> {
        let digest = self.forth_and_back(case, tried)?;
        self.garbage(case, tried)?;
        self.formats(case)?;
        self.wrong_is_refused(case)?;
        self.other_kind_is_refused(case)?;
        Ok(digest)
    }

    /// Runs a case within the time limit.
    fn timed<T>(&self, case: u64, run: impl FnOnce() -> T) -> T {
        let seed = self.seed;
        let failure = move |seen| Broken { operation: O::NAME, rule: Rule::Ends, seed, case, seen };
        self.clock.timed_as("the case", failure, run)
    }

    fn broken(&self, case: u64, (rule, seen): Wrong) -> Broken {
        Broken { operation: O::NAME, rule, seed: self.seed, case, seen }
    }

    /// Returns the random numbers of a case, which make its pages and arguments again.
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
            let Ok(undo) = prepared(&operation, &page, at)? else {
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
                // It cannot be undone alone, so neither can those before it.
                false => break,
            }
        }
        Ok(digest)
    }

    /// Tests encoding, determinism, and the absence of refusals; leaves `page` changed.
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

    /// Undoes one operation and compares. Returns `false` if it has no undo that can be tested on one page.
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
                    "after undo by {} the page differs from the one before it{}",
                    last.undo.describe(),
                    difference(&last.before, page).unwrap_or_default()
                ),
            ));
        }
        Ok(true)
    }

    /// Repeats the first operation of each case: later, in another thread, in another order, decoded from its encoding,
    /// without `prepare` before it. The result must be the same.
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
                    let again = self.timed(*case, || first_again(*case));
                    let again = again.map_err(|wrong| self.broken(*case, wrong))?;
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

    /// Redoes an operation that formats over other pages: one that was never written, one of another structure.
    fn formats(&self, case: u64) -> Result<(), Wrong> {
        if !O::FORMATS {
            return Ok(());
        }
        let mut chance = self.chance(case).part(0xf0a7);
        let good = self.fresh_page(&mut chance);
        let (operation, at) = (self.arguments)(&mut chance, &good.page_ref());
        if prepared(&operation, &good, at)?.is_err() {
            return Ok(());
        }
        let id = good.page_ref().id();
        let mut noise = [0; PAGE_LEN];
        chance.fill(&mut noise);
        let mut other = PageBuf::from_bytes(id, &noise);
        other.change(FORMATTED, |page| page.set_layout_word(7));
        let mut results = [good, PageBuf::new(id), other].into_iter();
        let mut redone = || -> Result<Option<PageBuf>, Wrong> {
            let Some(mut page) = results.next() else { return Ok(None) };
            apply(&mut page, FORMATTED.next(), Rule::Formats, |page| operation.redo(page, at))?;
            Ok(Some(page))
        };
        let Some(first) = redone()? else { return Ok(()) };
        while let Some(next) = redone()? {
            let what = "it says that it formats the page, and what it leaves depends on what the page was";
            same(&first, &next, Rule::Formats, what)?;
        }
        Ok(())
    }

    /// Tests arguments that `prepare` must refuse.
    fn wrong_is_refused(&self, case: u64) -> Result<(), Wrong> {
        let Some(wrong) = &self.wrong else { return Ok(()) };
        let mut chance = self.chance(case).part(0x5ef0);
        let page = self.fresh_page(&mut chance);
        let (operation, at) = wrong(&mut chance, &page.page_ref());
        match prepared(&operation, &page, at)? {
            Err(_) => Ok(()),
            Ok(_) => Err((Rule::Refuses, format!("prepare accepts {operation:?} at slot {at}"))),
        }
    }

    /// Tests a page of another layout.
    fn other_kind_is_refused(&self, case: u64) -> Result<(), Wrong> {
        let Some(own) = self.kind else { return Ok(()) };
        let mut chance = self.chance(case).part(0x41d0);
        let good = self.fresh_page(&mut chance);
        let (operation, at) = (self.arguments)(&mut chance, &good.page_ref());
        let kinds = [LayoutKind::NONE, LayoutKind::RAW, LayoutKind::FIXED, LayoutKind::SLOTTED, LayoutKind::VERSIONED];
        let kind = *chance.pick(&kinds);
        if kind == own {
            return Ok(());
        }
        // The content of a good page, under another layout's number.
        let mut other = good.clone();
        other
            .change(FORMATTED.next(), |page| -> Result<(), Damaged> {
                page.format(kind);
                page.put(0, good.page_ref().body())
            })
            .expect("a body fits");
        match prepared(&operation, &other, at)? {
            Err(_) => Ok(()),
            Ok(_) => Err((Rule::Refuses, format!("prepare accepts {operation:?} on a page of layout {}", kind.0))),
        }
    }

    /// Tests encodings of existing stores.
    fn encodings(&self) -> Result<(), Wrong> {
        for (operation, bytes) in &self.golden {
            let encoded = encode(operation)?;
            if encoded != *bytes {
                return Err((
                    Rule::Encoding,
                    format!(
                        "{operation:?} is encoded as {encoded:02x?}, stores have {bytes:02x?}: changed arguments need a new name"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Tests pages with any content: noise, a good page with some wrong bytes, a page of zeros.
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
        // Arguments that prepare refuses on a good page are never redone, whatever the page has become since.
        let accepted = matches!(quietly(|| operation.prepare(&good.page_ref(), at).is_ok()), Ok(true));
        let outcome = quietly(|| {
            let prepared = operation.prepare(&garbage.page_ref(), at);
            let mut page = garbage.clone();
            // It may find the page damaged, or change meaningless bytes; both are permitted.
            if accepted || prepared.is_ok() {
                let _ = page.change(FORMATTED.next(), |page| operation.redo(page, at));
            }
            if let Ok(undo) = prepared {
                let mut page = garbage.clone();
                let _ = page.change(FORMATTED.next(), |page| undo.rehearse(&self.registry, page, at));
            }
        });
        outcome.map_err(|words| (Rule::NeverPanics, format!("on a page of garbage: {words}")))
    }
}

fn encode<O: Operation>(operation: &O) -> Result<Vec<u8>, Wrong> {
    postcard::to_stdvec(operation).map_err(|error| (Rule::Encoding, format!("it cannot be encoded: {error}")))
}

/// Calls `prepare` on a good page.
fn prepared<O: Operation>(operation: &O, page: &PageBuf, at: Slot) -> Result<Result<Undo, Refused>, Wrong> {
    quietly(|| operation.prepare(&page.page_ref(), at))
        .map_err(|words| (Rule::NeverPanics, format!("prepare of {operation:?} at slot {at}: {words}")))
}

/// Returns the operation as it is decoded from the log.
fn through_the_log<O: Operation>(operation: &O) -> Result<O, Wrong> {
    let encoding = |what: &str| (Rule::Encoding, what.to_string());
    let bytes = encode(operation)?;
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

/// Changes `page`; an error or a panic on a good page violates `rule`.
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
    match difference(one, other) {
        None => Ok(()),
        Some(place) => Err((rule, format!("{what}{place}"))),
    }
}

/// Number of bytes of a body that are printed where two pages differ.
const SHOWN: usize = 8;

/// Returns where two pages differ in the parts that an operation can change: layout and body. The store owns the rest of the
/// header.
fn difference(one: &PageBuf, other: &PageBuf) -> Option<String> {
    let (one, other) = (one.page_ref(), other.page_ref());
    if one.kind() != other.kind() {
        return Some(format!(": layout {} against {}", one.kind().0, other.kind().0));
    }
    if one.layout_word() != other.layout_word() {
        return Some(format!(": layout word {:#x} against {:#x}", one.layout_word(), other.layout_word()));
    }
    let differs = |at: &usize| one.body()[*at] != other.body()[*at];
    let first = (0..BODY_LEN).find(differs)?;
    let count = (first..BODY_LEN).filter(differs).count();
    let begin = first / SHOWN * SHOWN;
    let shown = |page: &PageRef<'_>| format!("{:02x?}", &page.body()[begin..begin + SHOWN]);
    Some(format!(
        ": {count} bytes of the body, first at offset {first}; from offset {begin} on {} against {}",
        shown(&one),
        shown(&other)
    ))
}

fn digest_of(page: &PageBuf) -> u64 {
    xxhash_rust::xxh3::xxh3_64(page.page_ref().bytes())
}
