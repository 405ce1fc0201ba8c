//! Correct and faulty layouts of users.
#![cfg(not(cedrat_shuttle))]

use cedrat_check as check;
use cedrat_pages::layout::Layout;
use cedrat_pages::{Damaged, LayoutKind, PageMut, PageRef, Slot};
use cedrat_txn::{Operation, Refused, Undo};
use serde::{Deserialize, Serialize};

const KIND: LayoutKind = LayoutKind(1_100);

/// A layout of words behind their number.
#[derive(Clone, Copy, PartialEq)]
enum Words {
    Right,
    AnyKind,
    CountBelieved,
    NothingChecked,
    GoodRefused,
}

fn words(page: &PageRef<'_>) -> Result<usize, Damaged> {
    let count = page.u64_at(0)?;
    match count < (page.body().len() / 8) as u64 {
        true => Ok(count as usize),
        false => Err(Damaged::in_body(page.id(), 0, "more words than a page has")),
    }
}

impl Layout for Words {
    fn kind(&self) -> LayoutKind {
        KIND
    }

    fn name(&self) -> &str {
        "words"
    }

    fn check(&self, page: &PageRef<'_>) -> Result<(), Damaged> {
        if page.kind() != KIND && *self != Words::AnyKind {
            return Err(Damaged::wrong_kind(page.id()));
        }
        match *self {
            Words::NothingChecked => Ok(()),
            Words::GoodRefused if page.u64_at(0)? > 3 => Err(Damaged::in_body(page.id(), 0, "too many")),
            _ => words(page).map(drop),
        }
    }

    fn records(&self, page: &PageRef<'_>, each: &mut dyn FnMut(Slot, &[u8])) -> Result<(), Damaged> {
        let count = if *self == Words::CountBelieved { page.u64_at(0)? as usize } else { words(page)? };
        (1..=count).for_each(|word| each(Slot(word as u16), &page.body()[word * 8..word * 8 + 8]));
        Ok(())
    }
}

fn found(words: Words) -> Option<String> {
    let fill = |chance: &mut check::Rng, page: &mut PageMut<'_>| {
        page.format(KIND);
        page.put_u64(0, chance.below(5)).expect("inside");
    };
    check::layout(words, fill).cases(400).run().err().map(|broken| broken.to_string())
}

#[test]
fn wrong_layouts_are_found() {
    assert_eq!(found(Words::Right), None);
    let wrong = [
        (Words::AnyKind, "accepts a page of another kind"),
        (Words::CountBelieved, "panics on a page of garbage"),
        (Words::NothingChecked, "its records refuse it"),
        (Words::GoodRefused, "refuses a good page"),
    ];
    for (layout, because) in wrong {
        let words = found(layout).expect(because);
        assert!(words.contains(because), "{words}");
    }
}

/// Sets the number of words, on any page or only on those of its kind.
#[derive(Debug, Serialize, Deserialize)]
struct SetCount<const ANY: bool>(u8);

impl<const ANY: bool> Operation for SetCount<ANY> {
    const NAME: &'static str = "test.set_count";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        if !ANY && page.kind() != KIND {
            return Err(Damaged::wrong_kind(page.id()).into());
        }
        Undo::before_image(page, 0, 8)
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        page.put_u64(0, u64::from(self.0))
    }
}

fn counted<const ANY: bool>() -> Result<check::Tried, check::Broken> {
    let check = check::operation::<SetCount<ANY>>(|chance, _| (SetCount(chance.below(100) as u8), Slot(0)));
    check.pages(|_, page| page.format(KIND)).only_on(KIND).cases(100).run()
}

#[test]
fn operation_on_any_kind_is_found() {
    counted::<false>().unwrap_or_else(|broken| panic!("{broken}"));
    let broken = counted::<true>().unwrap_err();
    assert_eq!(broken.rule, check::Rule::Refuses);
    assert!(broken.seen.contains("a page of layout"), "{broken}");
}
