//! The operations of a page-oriented list, each on one page, each with an inverse on the same page.
//!
//! Positions within a page are valid only as long as no other transaction changes the page. That is why the list takes
//! its big lock: under it, physiological undo finds each page as the change left it (E14.1).

use cedrat_pages::{Damaged, PageMut, PageRef, Slot};
use cedrat_txn::{Meaning, Operation, RecordId, Refused, Result, SmallBytes, Undo};
use serde::{Deserialize, Serialize};

use super::sequence::{self, Links};
use crate::bytes::{BytesMut, Corrupt};
use crate::kinds;

/// Formats a fresh page as an empty page of the list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Begin {
    pub(super) root: u64,
    pub(super) next: u64,
    pub(super) previous: u64,
}

impl Operation for Begin {
    const NAME: &'static str = "cedrat.page_list.begin.v1";
    const FORMATS: bool = true;

    fn prepare(&self, _: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        Ok(Undo::none())
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        page.format(kinds::SEQUENCE);
        let links = Links { next: self.next, previous: self.previous };
        change(page, |body| {
            sequence::format(body, self.root, links);
            Ok(())
        })
    }

    fn meaning(&self, _: RecordId) -> Meaning {
        Meaning::Form
    }
}

/// Inserts records before record `index` of the page.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Insert {
    pub(super) index: u16,
    pub(super) records: Vec<SmallBytes>,
}

impl Operation for Insert {
    const NAME: &'static str = "cedrat.page_list.insert.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        own(page)?;
        let slots_len = 2 * (self.records.len() - 1);
        let len = self.records.iter().map(|record| record.len()).sum::<usize>();
        let lens_len = 2 * (self.records.len() - 1);
        let fits = sound(sequence::has_space(page.body(), len + slots_len + lens_len))?;
        if !fits || usize::from(self.index) > sound(sequence::count(page.body()))? {
            return Err(Refused::new("the records do not fit the page of the list"));
        }
        Ok(Undo::op(Remove { index: self.index, count: self.records.len() as u16 }))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        change(page, |body| {
            for (n, record) in self.records.iter().enumerate() {
                sequence::insert(body, usize::from(self.index) + n, record)?;
            }
            Ok(())
        })
    }
}

/// Removes `count` records, from record `index` on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Remove {
    pub(super) index: u16,
    pub(super) count: u16,
}

impl Operation for Remove {
    const NAME: &'static str = "cedrat.page_list.remove.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        own(page)?;
        let all = usize::from(self.index)..usize::from(self.index) + usize::from(self.count);
        let records = all.map(|index| sound(sequence::get(page.body(), index)).map(SmallBytes::from));
        Ok(Undo::op(Insert { index: self.index, records: records.collect::<Result<_, _>>()? }))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        change(page, |body| {
            for _ in 0..self.count {
                sequence::remove(body, usize::from(self.index))?;
            }
            Ok(())
        })
    }
}

/// Replaces record `index`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Replace {
    pub(super) index: u16,
    pub(super) record: SmallBytes,
}

impl Operation for Replace {
    const NAME: &'static str = "cedrat.page_list.replace.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        own(page)?;
        let old = sound(sequence::get(page.body(), usize::from(self.index)))?;
        if !sound(sequence::has_space_instead(page.body(), usize::from(self.index), self.record.len()))? {
            return Err(Refused::new("the record does not fit the page of the list"));
        }
        Ok(Undo::op(Replace { index: self.index, record: old.into() }))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        change(page, |body| sequence::replace(body, usize::from(self.index), &self.record))
    }
}

/// Sets a page's links.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SetLinks {
    pub(super) next: u64,
    pub(super) previous: u64,
}

impl Operation for SetLinks {
    const NAME: &'static str = "cedrat.page_list.set_links.v1";

    fn prepare(&self, page: &PageRef<'_>, _: Slot) -> Result<Undo, Refused> {
        own(page)?;
        let Links { next, previous } = sound(sequence::links(page.body()))?;
        Ok(Undo::op(SetLinks { next, previous }))
    }

    fn redo(&self, page: &mut PageMut<'_>, _: Slot) -> Result<(), Damaged> {
        change(page, |body| {
            sequence::set_links(body, Links { next: self.next, previous: self.previous });
            Ok(())
        })
    }

    fn meaning(&self, _: RecordId) -> Meaning {
        Meaning::Form
    }
}

fn own(page: &PageRef<'_>) -> Result<(), Refused> {
    if page.kind() == kinds::SEQUENCE {
        Ok(())
    } else {
        Err(Refused::new("the page is not one of a page-oriented list"))
    }
}

fn sound<T>(read: Result<T, Corrupt>) -> Result<T, Refused> {
    read.map_err(|_| Refused::new("the page's bytes are corrupt; check the store and restore the page from a copy"))
}

fn change(page: &mut PageMut<'_>, edit: impl FnOnce(&mut [u8]) -> Result<(), Corrupt>) -> Result<(), Damaged> {
    let id = page.id();
    BytesMut::edit(page, edit)
        .map_err(|_| Damaged::in_body(id, 0, "a page of a page-oriented list is not what its operation left"))
}
