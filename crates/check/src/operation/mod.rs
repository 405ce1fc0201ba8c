//! Checks of a single operation: does it follow the rules that recovery relies on?
//!
//! Recovery relies on five properties of an operation. Each is a [`Rule`], and each is tested on generated pages with
//! generated arguments, ten thousand times by default:
//!
//! 1. decoding a logged operation gives the original ([`Rule::Encoding`]);
//! 2. redo always has the same result, which is also that of the first execution ([`Rule::Deterministic`], R5);
//! 3. the result depends only on its page and its arguments ([`Rule::OnlyItsPage`], E6.4, E13.1): later, in another thread,
//!    in another order, without `prepare` before it;
//! 4. it refuses in `prepare` or never ([`Rule::RefusesInPrepare`], E6.1, E6.3);
//! 5. its undo restores the page, up to the operation's own equality ([`Rule::UndoRestores`]).
//!
//! And since a page may contain any bytes when an operation is executed, it must not panic on any ([`Rule::NeverPanics`]), nor
//! loop ([`Rule::Ends`]); an operation that declares that it formats leaves the same bytes over any page ([`Rule::Formats`]).
//!
//! It cannot change the header or another page, because a [`PageMut`] gives no access to them.
//!
//! The check does not cover logical undo and changes of several pages: those need [`crashes`](crate::crashes).

mod rules;

use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use cedrat_pages::{LayoutKind, PageMut, PageRef, Slot};
use cedrat_txn::{Operation, Registry};

use crate::clock::Clock;
use crate::rng::{self, Rng};

/// Rules of operations that recovery relies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// Decoding an encoded operation gives an operation that does the same and encodes to the same bytes.
    Encoding,
    /// Redo of the same operation on the same bytes gives the same bytes.
    Deterministic,
    /// Redo depends only on its arguments and the bytes of its page.
    OnlyItsPage,
    /// Redo does not refuse what `prepare` accepted.
    RefusesInPrepare,
    /// Undo restores a page that equals the previous one, in the operation's own sense.
    UndoRestores,
    /// `prepare` and `redo` do not panic, whatever bytes the page contains.
    NeverPanics,
    /// `prepare`, `redo` and undo end, whatever bytes the page contains: within [`OperationCheck::time_limit`].
    Ends,
    /// An operation that declares that it formats ([`Operation::FORMATS`]) leaves the same bytes whatever the page was.
    Formats,
    /// `prepare` refuses the arguments of [`OperationCheck::refuses`], and pages that [`OperationCheck::only_on`] excludes.
    Refuses,
}

/// A rule that an operation violates.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Broken {
    /// The operation's name.
    pub operation: &'static str,
    /// The rule.
    pub rule: Rule,
    /// The seed, which together with `case` repeats the failure.
    pub seed: u64,
    /// The number of the case.
    pub case: u64,
    /// Description of the violation.
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

/// Numbers of tested and of refused cases.
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
/// `arguments` makes an operation, and its slot, for a page. It should make invalid ones too, sometimes: `prepare` must
/// refuse them.
pub fn operation<O: Operation>(
    arguments: impl Fn(&mut Rng, &PageRef<'_>) -> (O, Slot) + Send + Sync + 'static,
) -> OperationCheck<O> {
    OperationCheck {
        arguments: Box::new(arguments),
        format: Box::new(|_, _| {}),
        equal: Box::new(same_body),
        registry: Registry::new().operation::<O>(),
        kind: None,
        wrong: None,
        golden: Vec::new(),
        seed: rng::seed(1),
        cases: 0..10_000,
        clock: Clock::new(),
    }
}

/// A check of one operation that was not run yet.
pub struct OperationCheck<O> {
    arguments: Box<Arguments<O>>,
    format: Box<Format>,
    equal: Box<Equal>,
    registry: Registry,
    /// Layout of the pages that the operation works on, if it must refuse others.
    kind: Option<LayoutKind>,
    /// Makes arguments that must be refused.
    wrong: Option<Box<Arguments<O>>>,
    /// Operations, with their encodings in existing stores.
    golden: Vec<(O, Vec<u8>)>,
    seed: u64,
    cases: Range<u64>,
    clock: Clock,
}

fn same_body(one: &PageRef<'_>, other: &PageRef<'_>) -> bool {
    one.kind() == other.kind() && one.layout_word() == other.layout_word() && one.body() == other.body()
}

impl<O: Operation> OperationCheck<O> {
    /// Sets the generator of the operation's pages: `format` gets a page of zeros.
    pub fn pages(mut self, format: impl Fn(&mut Rng, &mut PageMut<'_>) + Send + Sync + 'static) -> Self {
        self.format = Box::new(format);
        self
    }

    /// Sets when two pages are equal for this operation. The default compares layout and body, byte by byte.
    ///
    /// An insert into a slotted page, for instance, may leave its record somewhere else after it was undone: equality is
    /// then that of the records, not of the bytes.
    pub fn equal(mut self, equal: impl Fn(&PageRef<'_>, &PageRef<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.equal = Box::new(equal);
        self
    }

    /// Sets the operations that undo this one. The default contains the built-in operations and `O` itself.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry.operation::<O>();
        self
    }

    /// Restricts the operation to pages of this layout: `prepare` must refuse others.
    pub fn only_on(mut self, kind: LayoutKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Sets arguments that `prepare` must refuse: slots behind the last, amounts that do not fit, existing keys.
    pub fn refuses(mut self, wrong: impl Fn(&mut Rng, &PageRef<'_>) -> (O, Slot) + Send + Sync + 'static) -> Self {
        self.wrong = Some(Box::new(wrong));
        self
    }

    /// Sets the encoding of an operation in the logs of existing stores: `bytes`, as `postcard` encodes it. A changed
    /// encoding under the same name would be decoded wrongly.
    pub fn encoded(mut self, operation: O, bytes: impl Into<Vec<u8>>) -> Self {
        self.golden.push((operation, bytes.into()));
        self
    }

    /// Sets the seed (default: that of [`SEED_VARIABLE`](crate::SEED_VARIABLE), or 1).
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets how many cases are tried (default 10,000).
    pub fn cases(mut self, cases: u64) -> Self {
        self.cases = 0..cases;
        self
    }

    /// Sets how long one case may take (default a minute). Beyond, the case is printed under [`Rule::Ends`] and the process is
    /// aborted: a thread that loops cannot be stopped.
    pub fn time_limit(mut self, time_max: Duration) -> Self {
        self.clock.time_max = time_max;
        self
    }

    /// Tests only this case, the one that a failure has named. A violation that shows only across cases (a counter outside
    /// the page, for example) needs all of them.
    pub fn only(mut self, case: u64) -> Self {
        self.cases = case..case + 1;
        self
    }

    /// Runs the check.
    ///
    /// # Errors
    /// The first broken rule, with the seed and the case that repeat it.
    pub fn run(self) -> Result<Tried, Broken> {
        crate::speed::advise(O::NAME);
        self.all_rules()
    }
}
