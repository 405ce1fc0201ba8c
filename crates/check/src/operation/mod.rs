//! One operation by itself: is it what recovery takes it for?
//!
//! Recovery trusts an operation in five things. Each is a [`Rule`], and each is tried on generated pages with generated
//! arguments, ten thousand times by default:
//!
//! 1. what is read from the log is what was written ([`Rule::Encoding`]);
//! 2. redo does the same every time, and so does what the first execution does instead ([`Rule::Deterministic`], R5);
//! 3. it does so from nothing but its page and its arguments ([`Rule::OnlyItsPage`], E6.4, E13.1): later, in another thread, in another
//!    order, without `prepare` before it;
//! 4. it refuses in `prepare` or never ([`Rule::RefusesInPrepare`], E6.1, E6.3);
//! 5. its undo brings the page back, up to what the operation calls equal ([`Rule::UndoRestores`]).
//!
//! And since the bytes of a page may be anything by the time an operation meets them, it must not panic on any
//! ([`Rule::NeverPanics`]).
//!
//! That it touches no header and no other page need not be tried: a [`PageMut`] gives no way to.
//!
//! What this cannot see are logical undo and changes of several pages: those need [`crashes`](crate::crashes).

mod rules;

use std::error::Error;
use std::fmt;
use std::ops::Range;

use cedrat_pages::{PageMut, PageRef, Slot};
use cedrat_txn::{Operation, Registry};

use crate::rng::Rng;

/// What recovery takes for granted of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// Decoding an encoded operation gives an operation that does the same and encodes to the same bytes.
    Encoding,
    /// Redo of the same operation on the same bytes gives the same bytes.
    Deterministic,
    /// Redo depends on nothing but its arguments and the bytes of its page.
    OnlyItsPage,
    /// Redo does not refuse what `prepare` accepted.
    RefusesInPrepare,
    /// Undo brings back a page that equals the one before, in the operation's own sense.
    UndoRestores,
    /// `prepare` and `redo` do not panic, whatever bytes the page holds.
    NeverPanics,
}

/// A rule that an operation broke.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Broken {
    /// The operation's name.
    pub operation: &'static str,
    /// The rule.
    pub rule: Rule,
    /// The seed and the number of the case, which repeat it.
    pub seed: u64,
    /// See `seed`.
    pub case: u64,
    /// What was seen.
    pub seen: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "operation {}: {:?}: {}\nrepeat with: .seed({}).only({})",
            self.operation, self.rule, self.seen, self.seed, self.case
        )
    }
}

impl Error for Broken {}

/// How many cases were tried, and how many of them were refused by `prepare`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tried {
    /// Cases in which the operation was performed, undone and compared.
    pub performed: u64,
    /// Cases that `prepare` refused.
    pub refused: u64,
    /// Pages of garbage that were tried.
    pub garbage: u64,
}

type Arguments<O> = dyn Fn(&mut Rng, &PageRef<'_>) -> (O, Slot) + Send + Sync;
type Format = dyn Fn(&mut Rng, &mut PageMut<'_>) + Send + Sync;
type Equal = dyn Fn(&PageRef<'_>, &PageRef<'_>) -> bool + Send + Sync;

/// Checks operation `O` by itself. Configure the result and [`run`](OperationCheck::run) it.
///
/// `arguments` makes an operation, and the slot it goes to, for a page. Let it make wrong ones too, sometimes: `prepare`
/// must refuse them.
pub fn operation<O: Operation>(
    arguments: impl Fn(&mut Rng, &PageRef<'_>) -> (O, Slot) + Send + Sync + 'static,
) -> OperationCheck<O> {
    OperationCheck {
        arguments: Box::new(arguments),
        format: Box::new(|_, _| {}),
        equal: Box::new(same_body),
        registry: Registry::new().operation::<O>(),
        seed: 1,
        cases: 0..10_000,
    }
}

/// A check of one operation that was not run yet.
pub struct OperationCheck<O> {
    arguments: Box<Arguments<O>>,
    format: Box<Format>,
    equal: Box<Equal>,
    registry: Registry,
    seed: u64,
    cases: Range<u64>,
}

fn same_body(one: &PageRef<'_>, other: &PageRef<'_>) -> bool {
    one.kind() == other.kind() && one.layout_word() == other.layout_word() && one.body() == other.body()
}

impl<O: Operation> OperationCheck<O> {
    /// Says how a page looks that the operation works on: `format` is given a page of zeros.
    pub fn pages(mut self, format: impl Fn(&mut Rng, &mut PageMut<'_>) + Send + Sync + 'static) -> Self {
        self.format = Box::new(format);
        self
    }

    /// Says when two pages are equal for this operation. The default compares layout and body, byte by byte.
    ///
    /// An insert into a slotted page, for instance, may leave its record somewhere else after it was undone: equality is
    /// then that of the records, not of the bytes.
    pub fn equal(mut self, equal: impl Fn(&PageRef<'_>, &PageRef<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.equal = Box::new(equal);
        self
    }

    /// Names the operations that undo this one. The default knows the built-in operations and `O` itself.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry.operation::<O>();
        self
    }

    /// Sets the seed (default 1).
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets how many cases are tried (default 10,000).
    pub fn cases(mut self, cases: u64) -> Self {
        self.cases = 0..cases;
        self
    }

    /// Tries one case only: the one that a failure named. What shows only across cases (a counter outside the page, say)
    /// needs them all.
    pub fn only(mut self, case: u64) -> Self {
        self.cases = case..case + 1;
        self
    }

    /// Runs the check.
    ///
    /// # Errors
    /// The first broken rule, with the seed and the case that repeat it.
    pub fn run(self) -> Result<Tried, Broken> {
        self.all_rules()
    }
}
