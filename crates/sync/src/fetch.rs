//! Prefetching of cache lines that are about to be written.
//!
//! If the compiler may not assume a newer processor, its own hint for a write becomes a hint for a read, and the
//! write then requests the line from the other processors a second time. The instruction used here does nothing on
//! processors that do not know it.
//!
//! `unsafe` here is sound because
//! 1. the instruction is a hint: it reads and writes nothing that the program can observe, whatever the address.

/// Prefetches the cache line of the value's first byte, which this thread is about to write.
///
/// Lines that are requested together arrive together, whereas writes to lines that other processors own wait for one
/// another.
#[inline(always)]
pub fn prefetch_to_write<T>(value: &T) {
    #[cfg(all(target_arch = "x86_64", not(any(cedrat_shuttle, miri))))]
    // SAFETY: 1.
    unsafe {
        std::arch::asm!(
            "prefetchw [{}]",
            in(reg) std::ptr::from_ref(value),
            options(readonly, nostack, preserves_flags)
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(cedrat_shuttle, miri)))))]
    let _ = value;
}
