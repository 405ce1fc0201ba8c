//! Operations with one fault each, and the rule under which [`check::operation`] finds it.
//!
//! All are variants of a correct one, `Add`, which keeps numbers in slots of eight bytes. A checker that missed one of them
//! would be a checker that cannot fail.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::SystemTime;

use cedrat_check as check;
use cedrat_check::{Broken, Rng, Rule};
use cedrat_pages::{BODY_LEN, Damaged, LayoutKind, PageMut, PageRef, Slot};
use cedrat_txn::{Operation, Refused, Registry, Undo};
use serde::{Deserialize, Serialize};

fn place(at: Slot) -> usize {
    usize::from(at.0) * 8
}

fn number(page: &PageRef<'_>, at: Slot) -> Result<i64, Damaged> {
    Ok(page.u64_at(place(at))? as i64)
}

fn add(page: &mut PageMut<'_>, at: Slot, amount: i64) -> Result<(), Damaged> {
    let sum = number(&page.page_ref(), at)?.wrapping_add(amount);
    page.put_u64(place(at), sum as u64)
}

/// Makes slots mostly inside the page, amounts of every size.
fn arguments(chance: &mut Rng) -> (i64, Slot) {
    (chance.number(), Slot(chance.below(BODY_LEN as u64 / 8 + 4) as u16))
}

fn numbers(chance: &mut Rng, page: &mut PageMut<'_>) {
    for slot in 0..BODY_LEN / 8 {
        page.put_u64(slot * 8, chance.number() as u64).expect("inside the page");
    }
}

/// Checks the operations that `make` makes of an amount, and expects that they violate `rule`.
#[track_caller]
fn caught<O: Operation>(rule: Rule, make: impl Fn(i64) -> O + Send + Sync + 'static) -> Broken {
    let broken = check::operation::<O>(move |chance, _| {
        let (amount, at) = arguments(chance);
        (make(amount), at)
    })
    .pages(numbers)
    .registry(Registry::new().operation::<Add>())
    .cases(2_000)
    .run()
    .expect_err("the planted fault must be caught");
    assert_eq!(broken.rule, rule, "{broken}");
    assert!(broken.to_string().contains(O::NAME), "a failure names its operation: {broken}");
    broken
}

/// The correct operation.
#[derive(Debug, Serialize, Deserialize)]
struct Add(i64);

impl Operation for Add {
    const NAME: &'static str = "planted.add";
    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        number(page, at)?;
        Ok(Undo::op(Add(self.0.wrapping_neg())))
    }
    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        add(page, at, self.0)
    }
}

#[test]
fn valid_operation_passes_and_is_exercised() {
    let tried = check::operation::<Add>(|chance, _| {
        let (amount, at) = arguments(chance);
        (Add(amount), at)
    })
    .pages(numbers)
    .run()
    .expect("nothing is wrong with it");
    assert!(tried.performed > 20_000, "{tried:?}");
    assert!(tried.refused > 100, "slots outside the page are refused: {tried:?}");
    assert_eq!(tried.garbage, 10_000);
}

/// Defines an operation with the given redo and the correct undo.
macro_rules! wrong_redo {
    ($name:ident, $text:literal, |$self:ident, $page:ident, $at:ident| $redo:expr) => {
        #[derive(Debug, Serialize, Deserialize)]
        struct $name(i64);

        impl Operation for $name {
            const NAME: &'static str = $text;
            fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
                number(page, at)?;
                Ok(Undo::op(Add(self.0.wrapping_neg())))
            }
            fn redo(&$self, $page: &mut PageMut<'_>, $at: Slot) -> Result<(), Damaged> {
                $redo
            }
        }
    };
}

/// Defines an operation with the correct redo and the given undo.
macro_rules! wrong_undo {
    ($name:ident, $text:literal, |$self:ident, $page:ident, $at:ident| $undo:expr) => {
        #[derive(Debug, Serialize, Deserialize)]
        struct $name(i64);

        impl Operation for $name {
            const NAME: &'static str = $text;
            fn prepare(&$self, $page: &PageRef<'_>, $at: Slot) -> Result<Undo, Refused> {
                number($page, $at)?;
                $undo
            }
            fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
                add(page, at, self.0)
            }
        }
    };
}

wrong_undo!(UndoesTwice, "planted.undoes_twice", |self, _page, _at| {
    Ok(Undo::op(Add(self.0.wrapping_neg().wrapping_mul(2))))
});
wrong_undo!(UndoesElsewhere, "planted.undoes_elsewhere", |self, _page, at| {
    Ok(Undo::op_at(Slot(at.0.saturating_sub(1)), Add(self.0.wrapping_neg())))
});
wrong_undo!(ShortImage, "planted.short_image", |self, page, at| {
    // A before-image of four of the eight bytes.
    Undo::before_image(page, place(at), 4)
});
wrong_undo!(ForgottenUndo, "planted.forgotten_undo", |self, _page, _at| Ok(Undo::op(Unregistered(self.0))));

/// An operation that is not registered.
#[derive(Debug, Serialize, Deserialize)]
struct Unregistered(i64);

impl Operation for Unregistered {
    const NAME: &'static str = "planted.unregistered";
    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::none())
    }
    fn redo(&self, _: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        Ok(())
    }
}

#[test]
fn wrong_undos_are_caught() {
    caught(Rule::UndoRestores, UndoesTwice);
    caught(Rule::UndoRestores, UndoesElsewhere);
    caught(Rule::UndoRestores, ShortImage);
    let broken = caught(Rule::UndoRestores, ForgottenUndo);
    assert!(broken.seen.contains("planted.unregistered is not registered"), "{broken}");
}

static CALLS: AtomicU64 = AtomicU64::new(0);
static BONUS: AtomicI64 = AtomicI64::new(0);
std::thread_local! {
    static RATE: Cell<i64> = const { Cell::new(1) };
}

wrong_redo!(Counts, "planted.counts", |self, page, at| {
    // A number that continues from call to call, like a sequence in memory.
    add(page, at, CALLS.fetch_add(1, Ordering::Relaxed) as i64)
});
wrong_redo!(Clock, "planted.clock", |self, page, at| {
    let now = SystemTime::now();
    while SystemTime::now() == now {}
    let since = now.duration_since(SystemTime::UNIX_EPOCH).expect("the clock is set");
    add(page, at, since.as_nanos() as i64)
});
wrong_redo!(HashOrder, "planted.hash_order", |self, page, at| {
    // Each map has a new seed, so its iteration order is random.
    let map: HashMap<u64, i64> = (0..64).map(|i| (i, i as i64)).collect();
    add(page, at, *map.values().next().expect("it is not empty"))
});
wrong_redo!(Address, "planted.address", |self, page, at| {
    let address = page.page_ref().bytes().as_ptr() as i64;
    add(page, at, address)
});

#[test]
fn redo_that_does_not_repeat_is_caught() {
    caught(Rule::Deterministic, Counts);
    caught(Rule::Deterministic, Clock);
    caught(Rule::Deterministic, HashOrder);
    caught(Rule::Deterministic, Address);
}

wrong_redo!(OtherThread, "planted.other_thread", |self, page, at| {
    // The caller sets its thread's rate; recovery redoes in threads without it.
    add(page, at, self.0.wrapping_mul(RATE.get()))
});

#[test]
fn state_of_the_thread_is_caught() {
    RATE.set(3);
    let broken = check::operation::<OtherThread>(|chance, _| {
        let (amount, at) = arguments(chance);
        (OtherThread(amount), at)
    })
    .pages(numbers)
    .registry(Registry::new().operation::<Add>())
    // Undo is consistent with the caller's rate, so only the other thread reveals the fault.
    .equal(|_, _| true)
    .run()
    .expect_err("the planted fault must be caught");
    assert_eq!(broken.rule, Rule::OnlyItsPage, "{broken}");
}

/// `prepare` leaves state for `redo`, but recovery does not call it.
#[derive(Debug, Serialize, Deserialize)]
struct LeavesInMemory(i64);

impl Operation for LeavesInMemory {
    const NAME: &'static str = "planted.leaves_in_memory";
    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        let before = number(page, at)?;
        BONUS.store(before & 0xff, Ordering::Relaxed);
        Undo::before_image(page, place(at), 8)
    }
    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        add(page, at, BONUS.load(Ordering::Relaxed))
    }
}

#[test]
fn state_left_by_prepare_is_caught() {
    caught(Rule::OnlyItsPage, LeavesInMemory);
}

/// The operation keeps a result of `prepare` that is not written to the log.
#[derive(Debug, Serialize, Deserialize)]
struct NotWritten {
    amount: i64,
    #[serde(skip)]
    factor: i64,
}

impl Operation for NotWritten {
    const NAME: &'static str = "planted.not_written";
    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        Undo::before_image(page, place(at), 8)
    }
    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        add(page, at, self.amount.wrapping_mul(self.factor))
    }
}

/// An amount that is truncated to 32 bits in the log.
#[derive(Debug, Serialize, Deserialize)]
struct CutShort(#[serde(with = "as_i32")] i64);

mod as_i32 {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(amount: &i64, to: S) -> Result<S::Ok, S::Error> {
        (*amount as i32).serialize(to)
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
        i32::deserialize(from).map(i64::from)
    }
}

impl Operation for CutShort {
    const NAME: &'static str = "planted.cut_short";
    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        Undo::before_image(page, place(at), 8)
    }
    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        add(page, at, self.0)
    }
}

#[test]
fn arguments_lost_by_log_encoding_are_caught() {
    caught(Rule::Encoding, |amount| NotWritten { amount, factor: 3 });
    caught(Rule::Encoding, CutShort);
}

wrong_redo!(RefusesLate, "planted.refuses_late", |self, page, at| {
    let now = number(&page.page_ref(), at)?;
    let sum = now.checked_add(self.0).ok_or_else(|| Damaged::in_body(page.id(), place(at), "overflow"))?;
    page.put_u64(place(at), sum as u64)
});
wrong_redo!(PanicsLate, "planted.panics_late", |self, page, at| {
    assert!(number(&page.page_ref(), at)? >= -1, "an account must not be overdrawn");
    add(page, at, self.0)
});

#[test]
fn refusing_after_prepare_is_caught() {
    caught(Rule::RefusesInPrepare, RefusesLate);
    caught(Rule::RefusesInPrepare, PanicsLate);
}

/// The first execution has an effect that redo does not repeat.
#[derive(Debug, Serialize, Deserialize)]
struct FirstDiffers(i64);

impl Operation for FirstDiffers {
    const NAME: &'static str = "planted.first_differs";
    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        Undo::before_image(page, place(at), 8)
    }
    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        add(page, at, self.0)
    }
    fn first(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        add(page, at, self.0)?;
        page.put_u8(0, 1)
    }
}

#[test]
fn first_execution_unlike_redo_is_caught() {
    caught(Rule::Deterministic, FirstDiffers);
}

/// Trusts a length that is stored in the page.
#[derive(Debug, Serialize, Deserialize)]
struct BelievesThePage;

impl Operation for BelievesThePage {
    const NAME: &'static str = "planted.believes_the_page";
    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        let len = usize::from(page.u16_at(0)?);
        let last = page.body()[2..][len - 1];
        Ok(Undo::op(SetLast(last)))
    }
    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        SetLast(0).redo(page, at)
    }
}

/// Sets the last byte of the range that a length at the beginning of the page gives.
#[derive(Debug, Serialize, Deserialize)]
struct SetLast(u8);

impl Operation for SetLast {
    const NAME: &'static str = "planted.set_last";
    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Err(Refused::new("only for undo"))
    }
    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        let len = usize::from(page.page_ref().u16_at(0)?);
        page.put_u8((2 + len).saturating_sub(1), self.0)
    }
}

#[test]
fn a_panic_on_garbage_is_caught() {
    let broken = check::operation::<BelievesThePage>(|_, _| (BelievesThePage, Slot(0)))
        .pages(|chance, page| {
            let len = 1 + chance.below(100) as u16;
            page.put_u16(0, len).expect("inside the page");
        })
        .registry(Registry::new().operation::<SetLast>())
        .run()
        .expect_err("the planted fault must be caught");
    assert_eq!(broken.rule, Rule::NeverPanics, "{broken}");
}

/// The check of the correct operation, to be configured further.
fn of_add() -> check::OperationCheck<Add> {
    let check = check::operation::<Add>(|chance, _| {
        let (amount, at) = arguments(chance);
        (Add(amount), at)
    });
    check.pages(numbers).cases(200)
}

#[track_caller]
fn refused<O: Operation>(check: check::OperationCheck<O>, rule: Rule, words: &str) {
    let broken = check.run().expect_err("the wrong expectation must be caught");
    assert_eq!(broken.rule, rule, "{broken}");
    assert!(broken.seen.contains(words), "{broken}");
}

/// Logs of existing stores have -1 as one byte, and 300 as two.
#[test]
fn changed_encoding_is_caught() {
    of_add().encoded(Add(-1), [1]).encoded(Add(300), [0xd8, 0x04]).run().expect("nothing is wrong with it");
    refused(of_add().encoded(Add(-1), [2]), Rule::Encoding, "is encoded as [01], stores have [02]");
    refused(of_add().encoded(Add(-1), [1]).encoded(Add(1), [2, 0]), Rule::Encoding, "stores have [02, 00]");
}

#[test]
fn accepted_wrong_arguments_are_caught() {
    let beyond = |chance: &mut Rng, _: &PageRef<'_>| (Add(1), Slot((BODY_LEN / 8) as u16 + chance.below(9) as u16));
    of_add().refuses(beyond).run().expect("it refuses slots outside of the page");
    // Only one case in ten makes a slot inside the page.
    let inside =
        |chance: &mut Rng, _: &PageRef<'_>| (Add(1), Slot(if chance.one_in(10) { 3 } else { (BODY_LEN / 8) as u16 }));
    refused(of_add().refuses(inside), Rule::Refuses, "prepare accepts Add(1) at slot 3");
}

/// An addition that looks at the layout of its page.
#[derive(Debug, Serialize, Deserialize)]
struct AddToRaw(i64);

impl Operation for AddToRaw {
    const NAME: &'static str = "planted.add_to_raw";
    fn prepare(&self, page: &PageRef<'_>, at: Slot) -> Result<Undo, Refused> {
        if page.kind() != LayoutKind::RAW {
            return Err(Refused::new("the page is not raw"));
        }
        number(page, at)?;
        Ok(Undo::op(Add(self.0.wrapping_neg())))
    }
    fn redo(&self, page: &mut PageMut<'_>, at: Slot) -> Result<(), Damaged> {
        add(page, at, self.0)
    }
}

#[test]
fn accepted_page_of_other_layout_is_caught() {
    let check = check::operation::<AddToRaw>(|chance, _| {
        let (amount, at) = arguments(chance);
        (AddToRaw(amount), at)
    });
    let raw = |chance: &mut Rng, page: &mut PageMut<'_>| {
        page.format(LayoutKind::RAW);
        numbers(chance, page);
    };
    let check = check.pages(raw).registry(Registry::new().operation::<Add>()).cases(200).only_on(LayoutKind::RAW);
    assert!(check.run().expect("nothing is wrong with it").performed > 100);
    refused(of_add().only_on(LayoutKind::RAW), Rule::Refuses, "on a page of layout");
}

#[test]
fn seed_and_case_reproduce_the_failure() {
    let checked = || {
        check::operation::<UndoesTwice>(|chance, _| {
            let (amount, at) = arguments(chance);
            (UndoesTwice(amount), at)
        })
        .pages(numbers)
        .registry(Registry::new().operation::<Add>())
        .seed(5)
    };
    let first = checked().run().expect_err("caught");
    let again = checked().only(first.case).run().expect_err("caught again");
    assert_eq!(first.to_string(), again.to_string());
}
