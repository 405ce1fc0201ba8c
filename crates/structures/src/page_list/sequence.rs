//! The inside of one page of a page-oriented list: records of any length, in the list's order.
//!
//! Pure functions over the bytes of a page's body (drawn in `docs/formats/structures.md`):
//!
//! ```text
//! 0      8          16     24      26     28     32
//! | next | previous | root | count | heap | dead | offsets … |  free  | … records |
//!                                                  2 × count           from `heap` to the end
//! ```
//!
//! The offsets are in list order, so inserting and removing in the middle moves two bytes per record and takes one log
//! entry (Lemon §6.2, Figure 2).

use cedrat_pages::BODY_LEN;
use cedrat_pages::layout::FixedNumber;

use crate::bytes::Corrupt;

mod at {
    pub(super) const NEXT: usize = 0;
    pub(super) const PREVIOUS: usize = NEXT + 8;
    pub(super) const ROOT: usize = PREVIOUS + 8;
    pub(super) const COUNT: usize = ROOT + 8;
    pub(super) const HEAP: usize = COUNT + 2;
    pub(super) const DEAD: usize = HEAP + 2;
    pub(super) const OFFSETS: usize = DEAD + 4;
}
const _: () = assert!(at::OFFSETS == 32);

/// Number of bytes in front of each record: its length.
const LEN_LEN: usize = 2;

/// Maximum length of a record, in bytes. A page could take a few more, but a log record must hold two, before and
/// after.
pub const RECORD_LEN_MAX: usize = 3800;
const _: () = assert!(at::OFFSETS + 2 + LEN_LEN + RECORD_LEN_MAX <= BODY_LEN);

/// A page's links, zero for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Links {
    pub(crate) next: u64,
    pub(crate) previous: u64,
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    count: usize,
    heap: usize,
    dead: usize,
}

fn half(body: &[u8], at: usize) -> Result<usize, Corrupt> {
    let bytes = body.get(at..at + 2).ok_or(Corrupt)?;
    Ok(usize::from(u16::from_le_bytes(bytes.try_into().expect("two bytes"))))
}

fn put_half(body: &mut [u8], at: usize, value: usize) {
    debug_assert!(value <= usize::from(u16::MAX));
    body[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
}

fn word(body: &[u8], at: usize) -> Result<u64, Corrupt> {
    let bytes = body.get(at..at + 8).ok_or(Corrupt)?;
    Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

impl Shape {
    fn read(body: &[u8]) -> Result<Shape, Corrupt> {
        let shape = Shape { count: half(body, at::COUNT)?, heap: half(body, at::HEAP)?, dead: half(body, at::DEAD)? };
        let sound = body.len() == BODY_LEN
            && shape.offsets_end() <= shape.heap
            && shape.heap <= BODY_LEN
            && shape.dead <= BODY_LEN - shape.heap;
        if sound { Ok(shape) } else { Err(Corrupt) }
    }

    fn write(&self, body: &mut [u8]) {
        put_half(body, at::COUNT, self.count);
        put_half(body, at::HEAP, self.heap);
        put_half(body, at::DEAD, self.dead);
    }

    fn offsets_end(&self) -> usize {
        at::OFFSETS + 2 * self.count
    }

    fn free_len(&self) -> usize {
        self.heap - self.offsets_end() + self.dead
    }

    /// Returns the range of record `index`, including its length.
    fn record(&self, body: &[u8], index: usize) -> Result<std::ops::Range<usize>, Corrupt> {
        let start = half(body, at::OFFSETS + 2 * index)?;
        let end = start + LEN_LEN + half(body, start)?;
        if index < self.count && start >= self.heap && end <= BODY_LEN { Ok(start..end) } else { Err(Corrupt) }
    }
}

/// Formats `body` as an empty page of the list rooted at `root`, whatever its content.
pub(crate) fn format(body: &mut [u8], root: u64, links: Links) {
    body[..at::OFFSETS].fill(0);
    body[at::ROOT..at::ROOT + 8].copy_from_slice(&root.to_le_bytes());
    set_links(body, links);
    Shape { count: 0, heap: BODY_LEN, dead: 0 }.write(body);
}

pub(crate) fn links(body: &[u8]) -> Result<Links, Corrupt> {
    Ok(Links { next: word(body, at::NEXT)?, previous: word(body, at::PREVIOUS)? })
}

pub(crate) fn set_links(body: &mut [u8], links: Links) {
    body[at::NEXT..at::NEXT + 8].copy_from_slice(&links.next.to_le_bytes());
    body[at::PREVIOUS..at::PREVIOUS + 8].copy_from_slice(&links.previous.to_le_bytes());
}

/// Returns the root page to which this page belongs.
pub(crate) fn root(body: &[u8]) -> Result<u64, Corrupt> {
    word(body, at::ROOT)
}

/// Returns the number of records on the page.
pub(crate) fn count(body: &[u8]) -> Result<usize, Corrupt> {
    Ok(Shape::read(body)?.count)
}

/// Whether one more record of `len` bytes fits.
pub(crate) fn has_space(body: &[u8], len: usize) -> Result<bool, Corrupt> {
    Ok(Shape::read(body)?.free_len() >= 2 + LEN_LEN + len)
}

/// Whether record `index` could be replaced by one of `len` bytes on this page.
pub(crate) fn has_space_instead(body: &[u8], index: usize, len: usize) -> Result<bool, Corrupt> {
    let shape = Shape::read(body)?;
    Ok(shape.free_len() + shape.record(body, index)?.len() >= LEN_LEN + len)
}

/// Returns record `index`, counted from the page's first.
pub(crate) fn get(body: &[u8], index: usize) -> Result<&[u8], Corrupt> {
    let record = Shape::read(body)?.record(body, index)?;
    Ok(&body[record.start + LEN_LEN..record.end])
}

/// Inserts a record before record `index`, or after the last. There must be room.
pub(crate) fn insert(body: &mut [u8], index: usize, record: &[u8]) -> Result<(), Corrupt> {
    let mut shape = Shape::read(body)?;
    let len = LEN_LEN + record.len();
    if index > shape.count || shape.free_len() < 2 + len {
        return Err(Corrupt);
    }
    if shape.heap - shape.offsets_end() < 2 + len {
        shape = compact(body, shape)?;
    }
    let place = at::OFFSETS + 2 * index;
    body.copy_within(place..shape.offsets_end(), place + 2);
    shape.heap -= len;
    put_half(body, place, shape.heap);
    put_half(body, shape.heap, record.len());
    body[shape.heap + LEN_LEN..shape.heap + len].copy_from_slice(record);
    shape.count += 1;
    shape.write(body);
    Ok(())
}

/// Removes record `index`.
pub(crate) fn remove(body: &mut [u8], index: usize) -> Result<(), Corrupt> {
    let mut shape = Shape::read(body)?;
    let record = shape.record(body, index)?;
    let place = at::OFFSETS + 2 * index;
    body.copy_within(place + 2..shape.offsets_end(), place);
    shape.count -= 1;
    if record.start == shape.heap {
        shape.heap = record.end;
    } else {
        shape.dead += record.len();
    }
    if shape.dead > BODY_LEN - shape.heap {
        return Err(Corrupt);
    }
    shape.write(body);
    Ok(())
}

/// Replaces record `index`. There must be space ([`has_space_instead`]).
pub(crate) fn replace(body: &mut [u8], index: usize, record: &[u8]) -> Result<(), Corrupt> {
    let old = Shape::read(body)?.record(body, index)?;
    if old.len() == LEN_LEN + record.len() {
        body[old.start + LEN_LEN..old.end].copy_from_slice(record);
        return Ok(());
    }
    remove(body, index)?;
    insert(body, index, record)
}

fn compact(body: &mut [u8], mut shape: Shape) -> Result<Shape, Corrupt> {
    let mut packed = [0_u8; BODY_LEN];
    let mut heap = BODY_LEN;
    for index in 0..shape.count {
        let record = shape.record(body, index)?;
        heap = heap.checked_sub(record.len()).filter(|heap| *heap >= shape.offsets_end()).ok_or(Corrupt)?;
        packed[heap..heap + record.len()].copy_from_slice(&body[record]);
        put_half(body, at::OFFSETS + 2 * index, heap);
    }
    body[heap..].copy_from_slice(&packed[heap..]);
    shape.heap = heap;
    shape.dead = 0;
    Ok(shape)
}

/// Iterates over all records of the page, in order.
pub(crate) fn records(body: &[u8]) -> Result<impl Iterator<Item = Result<&[u8], Corrupt>>, Corrupt> {
    let shape = Shape::read(body)?;
    Ok((0..shape.count).map(move |index| {
        let record = shape.record(body, index)?;
        Ok(&body[record.start + LEN_LEN..record.end])
    }))
}

/// The numbers of a page, for tools.
pub(crate) const NUMBERS: &[FixedNumber] = &[
    FixedNumber::new("next page", at::NEXT, 8),
    FixedNumber::new("previous page", at::PREVIOUS, 8),
    FixedNumber::new("root", at::ROOT, 8),
    FixedNumber::new("records", at::COUNT, 2),
    FixedNumber::new("bytes of gaps", at::DEAD, 2),
];

/// Returns the bytes of all records together.
pub(crate) fn record_bytes(body: &[u8]) -> Result<u64, Corrupt> {
    records(body)?.map(|record| Ok(record?.len() as u64)).sum()
}

/// Checks everything about the page that its bytes alone can show.
pub(crate) fn check(body: &[u8]) -> Result<(), Corrupt> {
    let shape = Shape::read(body)?;
    let mut used = 0;
    for index in 0..shape.count {
        used += shape.record(body, index)?.len();
    }
    if used + shape.dead == BODY_LEN - shape.heap { Ok(()) } else { Err(Corrupt) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Step {
        Insert(prop::sample::Index, Vec<u8>),
        Remove(prop::sample::Index),
        Replace(prop::sample::Index, Vec<u8>),
    }

    fn step() -> impl Strategy<Value = Step> {
        let record = prop_oneof![
            4 => prop::collection::vec(any::<u8>(), 0..30),
            1 => prop::collection::vec(any::<u8>(), 0..900)
        ];
        prop_oneof![
            3 => (any::<prop::sample::Index>(), record.clone()).prop_map(|(at, r)| Step::Insert(at, r)),
            1 => any::<prop::sample::Index>().prop_map(Step::Remove),
            1 => (any::<prop::sample::Index>(), record).prop_map(|(at, r)| Step::Replace(at, r)),
        ]
    }

    proptest! {
        #[test]
        fn a_page_does_what_a_vector_does(steps in prop::collection::vec(step(), 1..300)) {
            let mut body = vec![0xAA; BODY_LEN];
            format(&mut body, 4, Links { next: 1, previous: 2 });
            let mut model: Vec<Vec<u8>> = Vec::new();
            for step in steps {
                let used: usize = model.iter().map(|r| r.len() + 4).sum();
                match step {
                    Step::Insert(at, record) => {
                        let index = at.index(model.len() + 1);
                        let fits = at::OFFSETS + used + record.len() + 4 <= BODY_LEN;
                        prop_assert_eq!(has_space(&body, record.len()).unwrap(), fits);
                        prop_assert_eq!(insert(&mut body, index, &record).is_ok(), fits);
                        if fits {
                            model.insert(index, record);
                        }
                    }
                    Step::Remove(at) if !model.is_empty() => {
                        let index = at.index(model.len());
                        remove(&mut body, index).unwrap();
                        model.remove(index);
                    }
                    Step::Replace(at, record) if !model.is_empty() => {
                        let index = at.index(model.len());
                        let fits = at::OFFSETS + used + record.len() <= BODY_LEN + model[index].len();
                        prop_assert_eq!(has_space_instead(&body, index, record.len()).unwrap(), fits);
                        if fits {
                            replace(&mut body, index, &record).unwrap();
                            model[index] = record;
                        }
                    }
                    _ => {}
                }
                check(&body).unwrap();
            }
            let all: Vec<Vec<u8>> = records(&body).unwrap().map(|r| r.unwrap().to_vec()).collect();
            prop_assert_eq!(&all, &model);
            prop_assert_eq!(links(&body).unwrap(), Links { next: 1, previous: 2 });
            prop_assert_eq!(root(&body).unwrap(), 4);
        }

        #[test]
        fn garbage_is_survived(mut body in prop::collection::vec(any::<u8>(), BODY_LEN..=BODY_LEN),
                               count in 0_usize..300, heap in 0_usize..4100, dead in 0_usize..100, index in 0_usize..300) {
            put_half(&mut body, at::COUNT, count);
            put_half(&mut body, at::HEAP, heap);
            put_half(&mut body, at::DEAD, dead);
            let _ = get(&body, index);
            let _ = check(&body);
            let _ = has_space_instead(&body, index, 3);
            let _ = records(&body).map(|all| all.count());
            let mut changed = body.clone();
            let _ = replace(&mut changed, index, b"abc");
            let _ = insert(&mut changed, index, b"abcdef");
            let _ = remove(&mut changed, index);
        }
    }
}
