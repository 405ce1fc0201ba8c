//! Values with a representation in words.

use crate::region::WORD_LEN;

/// A value that is stored in a heap as a fixed number of words.
///
/// Numbers, `bool`, `char`, arrays and tuples of plain values, [`Bytes`], [`Handle`](crate::Handle)s and
/// [`Array`](crate::Array)s, `Option`s of those two, and structs of all these by `#[derive(Plain)]`. Each number takes a
/// word of its own, so that transactions that change neighbouring fields rarely conflict; `Bytes` packs.
///
/// The derive also writes a trait with a method for each named field, here `AccountFields`. A module that uses a handle's
/// fields imports it.
///
/// ```
/// use cedrat_heap::Plain;
///
/// #[derive(Clone, Debug, PartialEq, Plain)]
/// #[plain(crate = "cedrat_heap")] // not in programs that depend on `cedrat`
/// struct Account {
///     owner: u64,
///     balance: i64,
/// }
///
/// # use cedrat_heap::{HeapOptions, Memory, MemoryOptions};
/// # fn main() -> cedrat_heap::Result<()> {
/// # let memory = Memory::volatile(MemoryOptions::small())?;
/// # let heap = memory.create_heap("bank", &HeapOptions::new(1 << 20))?;
/// let account = heap.transaction(|tx| tx.create(Account { owner: 7, balance: 100 }))?;
/// heap.transaction(|tx| tx.update(account.balance(), |balance| *balance -= 30))?;
/// assert_eq!(heap.transaction(|tx| tx.get(account))?, Account { owner: 7, balance: 70 });
/// # Ok(())
/// # }
/// ```
pub trait Plain: Sized {
    /// Number of words of the value.
    const WORDS: usize;

    /// Encodes the value as words, of which there are [`Plain::WORDS`].
    fn to_words(&self, words: &mut [u64]);

    /// Decodes the value of these words; `None` if they are invalid.
    fn of_words(words: &[u64]) -> Option<Self>;

    /// Writes a description of the type; if not `whole`, only its name, for a type that another one references.
    fn describe(into: &mut String, whole: bool);
}

/// Returns the description of a type that the names of roots keep: two types with equal descriptions are treated as the
/// same.
pub(crate) fn description<T: Plain>() -> String {
    let mut into = String::new();
    T::describe(&mut into, true);
    into
}

macro_rules! plain_numbers {
    ($($number:ty),*) => {$(
        impl Plain for $number {
            const WORDS: usize = 1;

            #[inline(always)]
            fn to_words(&self, words: &mut [u64]) {
                words[0] = *self as u64;
            }

            #[inline(always)]
            fn of_words(words: &[u64]) -> Option<Self> {
                let value = words[0] as $number;
                (value as u64 == words[0]).then_some(value)
            }

            fn describe(into: &mut String, _: bool) {
                into.push_str(stringify!($number));
            }
        }
    )*};
}

// Signed numbers are sign-extended: a word that is not the extension of a number is invalid.
plain_numbers!(u8, u16, u32, u64, i8, i16, i32, i64);

macro_rules! plain_by {
    ($type:ty, $to:expr, $of:expr) => {
        impl Plain for $type {
            const WORDS: usize = 1;

            #[inline(always)]
            fn to_words(&self, words: &mut [u64]) {
                words[0] = $to(*self);
            }

            #[inline(always)]
            fn of_words(words: &[u64]) -> Option<Self> {
                $of(words[0])
            }

            fn describe(into: &mut String, _: bool) {
                into.push_str(stringify!($type));
            }
        }
    };
}

plain_by!(bool, u64::from, |word| match word {
    0 => Some(false),
    1 => Some(true),
    _ => None,
});
plain_by!(char, u64::from, |word| u32::try_from(word).ok().and_then(char::from_u32));
plain_by!(f64, f64::to_bits, |word| Some(f64::from_bits(word)));
plain_by!(f32, |value: f32| u64::from(value.to_bits()), |word| u32::try_from(word).ok().map(f32::from_bits));

impl Plain for () {
    const WORDS: usize = 0;

    fn to_words(&self, _: &mut [u64]) {}

    fn of_words(_: &[u64]) -> Option<Self> {
        Some(())
    }

    fn describe(into: &mut String, _: bool) {
        into.push_str("()");
    }
}

impl<T: Plain, const N: usize> Plain for [T; N] {
    const WORDS: usize = T::WORDS * N;

    fn to_words(&self, words: &mut [u64]) {
        for (at, value) in self.iter().enumerate() {
            value.to_words(&mut words[at * T::WORDS..(at + 1) * T::WORDS]);
        }
    }

    fn of_words(words: &[u64]) -> Option<Self> {
        let mut values = (0..N).map_while(|at| T::of_words(&words[at * T::WORDS..(at + 1) * T::WORDS]));
        let values: [Option<T>; N] = std::array::from_fn(|_| values.next());
        values.iter().all(Option::is_some).then(|| values.map(|value| value.expect("all are there")))
    }

    fn describe(into: &mut String, whole: bool) {
        into.push('[');
        T::describe(into, whole);
        into.push_str(&format!("; {N}]"));
    }
}

macro_rules! plain_tuples {
    ($(($($part:ident $at:tt),*))*) => {$(
        impl<$($part: Plain),*> Plain for ($($part,)*) {
            const WORDS: usize = 0 $(+ $part::WORDS)*;

            fn to_words(&self, words: &mut [u64]) {
                $(
                    let (now, words) = words.split_at_mut($part::WORDS);
                    self.$at.to_words(now);
                )*
                let _ = words;
            }

            fn of_words(words: &[u64]) -> Option<Self> {
                let mut words = words;
                Some(($({
                    let (now, later) = words.split_at($part::WORDS);
                    words = later;
                    let _ = words;
                    $part::of_words(now)?
                },)*))
            }

            fn describe(into: &mut String, whole: bool) {
                let mut before = '(';
                $(
                    into.push(before);
                    before = ',';
                    $part::describe(into, whole);
                )*
                let _ = before;
                into.push(')');
            }
        }
    )*};
}

plain_tuples! { (A 0) (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) }

/// Bytes, packed eight to a word.
///
/// ```
/// use cedrat_heap::{Bytes, Plain};
/// let name: Bytes<12> = Bytes::text("Cedrat").unwrap();
/// assert_eq!((name.as_text(), <Bytes<12> as Plain>::WORDS), (Some("Cedrat"), 2));
/// assert_eq!(Bytes::<4>::text("Cedrat"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes<const N: usize>(pub [u8; N]);

impl<const N: usize> Bytes<N> {
    /// Stores a string, padded with zeros; `None` if it is longer.
    pub fn text(text: &str) -> Option<Bytes<N>> {
        let mut bytes = [0; N];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Bytes(bytes))
    }

    /// Returns the string without the padding; `None` if it is not valid UTF-8.
    pub fn as_text(&self) -> Option<&str> {
        let len = N - self.0.iter().rev().take_while(|&&byte| byte == 0).count();
        std::str::from_utf8(&self.0[..len]).ok()
    }
}

impl<const N: usize> Plain for Bytes<N> {
    const WORDS: usize = N.div_ceil(WORD_LEN as usize);

    fn to_words(&self, words: &mut [u64]) {
        for (word, bytes) in words.iter_mut().zip(self.0.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(whole);
        }
    }

    fn of_words(words: &[u64]) -> Option<Self> {
        let mut bytes = [0; N];
        for (bytes, word) in bytes.chunks_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes()[..bytes.len()]);
        }
        Some(Bytes(bytes))
    }

    fn describe(into: &mut String, _: bool) {
        into.push_str(&format!("Bytes<{N}>"));
    }
}
