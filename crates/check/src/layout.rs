//! Checks of a single page layout: its check refuses foreign pages, and ends on any bytes.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use cedrat_pages::layout::Layout;
use cedrat_pages::{LayoutKind, PAGE_LEN, PageBuf, PageId, PageMut, PageRef};
use cedrat_wal::Lsn;

use crate::clock::Clock;
use crate::probe::quietly;
use crate::rng::{self, Rng};

type Fill = dyn Fn(&mut Rng, &mut PageMut<'_>) + Send + Sync;

/// Checks a page layout by itself. Configure the result and [`run`](LayoutCheck::run) it.
///
/// `fill` makes a good page out of a page of zeros, like an operation that formats and some others.
pub fn layout<L: Layout>(
    layout: L,
    fill: impl Fn(&mut Rng, &mut PageMut<'_>) + Send + Sync + 'static,
) -> LayoutCheck<L> {
    LayoutCheck { layout, fill: Box::new(fill), seed: rng::seed(1), cases: 10_000, clock: Clock::new() }
}

/// A check of one layout that was not run yet.
pub struct LayoutCheck<L> {
    layout: L,
    fill: Box<Fill>,
    seed: u64,
    cases: u64,
    clock: Clock,
}

/// A violated guarantee of [`Layout`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BrokenLayout {
    /// The layout's name.
    pub layout: String,
    /// The seed, which together with `case` repeats the failure.
    pub seed: u64,
    /// The number of the case.
    pub case: u64,
    /// The violation that was seen.
    pub seen: String,
}

impl fmt::Display for BrokenLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "layout {}: {} (seed {}, case {})", self.layout, self.seen, self.seed, self.case)
    }
}

impl Error for BrokenLayout {}

impl<L: Layout> LayoutCheck<L> {
    /// Sets the seed (default: that of [`SEED_VARIABLE`](crate::SEED_VARIABLE), or 1).
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets how many cases are tried (default 10,000).
    pub fn cases(mut self, cases: u64) -> Self {
        self.cases = cases;
        self
    }

    /// Sets how long one case may take (default a minute). Beyond, the case is printed and the process is aborted: a thread that
    /// loops cannot be stopped.
    pub fn time_limit(mut self, time_max: Duration) -> Self {
        self.clock.time_max = time_max;
        self
    }

    /// Runs the check: good pages are accepted, pages of another kind refused, and garbage judged without a panic and without
    /// a loop. The records of an accepted page can be read.
    ///
    /// # Errors
    /// The first broken promise.
    pub fn run(self) -> Result<(), BrokenLayout> {
        for case in 0..self.cases {
            let (layout, seed) = (self.layout.name().to_string(), self.seed);
            let failure = move |seen| BrokenLayout { layout: layout.clone(), seed, case, seen };
            self.clock.timed_as("the case", failure.clone(), || self.case(case)).map_err(failure)?;
        }
        Ok(())
    }

    fn case(&self, case: u64) -> Result<(), String> {
        let mut chance = Rng::new(self.seed).part(case);
        let id = PageId::new(1 + chance.below(1_000));
        let mut good = PageBuf::new(id);
        good.change(Lsn::new(1), |page| (self.fill)(&mut chance, page));
        if !self.is_sound(&good.page_ref(), "a good page")? {
            return Err("its check refuses a good page".to_string());
        }
        let mut other = good.clone();
        let kind = if self.layout.kind() == LayoutKind::RAW { LayoutKind::NONE } else { LayoutKind::RAW };
        other.change(Lsn::new(2), |page| page.format(kind));
        if self.is_sound(&other.page_ref(), "a page of another kind")? {
            return Err("its check accepts a page of another kind".to_string());
        }
        let garbage = PageBuf::from_bytes(id, &garbage(&good, case, &mut chance));
        self.is_sound(&garbage.page_ref(), "a page of garbage").map(drop)
    }

    /// Returns whether check and records accept a page.
    fn is_sound(&self, page: &PageRef<'_>, what: &str) -> Result<bool, String> {
        /// More records than this are a loop: none is shorter than a bit.
        const RECORDS_MAX: usize = PAGE_LEN * 8;
        let mut records = 0;
        let judged = quietly(|| {
            let checked = self.layout.check(page);
            let read = self.layout.records(page, &mut |_, _| {
                records += 1;
                assert!(records <= RECORDS_MAX, "its records do not end");
            });
            (checked, read)
        });
        match judged {
            Err(words) => Err(format!("it panics on {what}: {words}")),
            Ok((Ok(()), Err(damaged))) => {
                Err(format!("its check accepts {what}, and its records refuse it: {damaged}"))
            }
            Ok((checked, _)) => Ok(checked.is_ok()),
        }
    }
}

/// Returns a good page with some bytes changed, or noise behind the header of a good one.
fn garbage(good: &PageBuf, case: u64, chance: &mut Rng) -> [u8; PAGE_LEN] {
    let mut bytes = *good.page_ref().bytes();
    let body = PAGE_LEN - good.page_ref().body().len();
    if case.is_multiple_of(4) {
        chance.fill(&mut bytes[body..]);
        return bytes;
    }
    for _ in 0..1 + chance.below(16) {
        // Counts and offsets usually lie at the beginning or at the end.
        let byte = match chance.below(3) {
            0 => body + chance.index(16),
            1 => PAGE_LEN - 1 - chance.index(16),
            _ => body + chance.index(PAGE_LEN - body),
        };
        bytes[byte] = *chance.pick(&[0, 1, 0x7f, 0x80, 0xff, byte as u8]);
    }
    bytes
}
