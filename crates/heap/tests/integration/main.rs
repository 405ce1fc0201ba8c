//! Tests of heaps through the public interface: one program, because linking takes longer than most tests. Tests that
//! measure their process, or run under Miri, are programs of their own, beside this directory.
#![forbid(unsafe_code)]

mod batches;
mod blocks;
mod blocks_reuse;
mod corrupt_words;
mod emptied_spans;
mod files;
mod structures;
mod structures_meet;
mod typed;
mod waiting;
