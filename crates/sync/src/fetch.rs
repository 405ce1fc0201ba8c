//! Asking for cache lines ahead of need.
//!
//! The compiler's own hint that a line will be written becomes a hint that it will be read where it may not take newer processors for
//! granted, and writing then asks the other processors a second time. The instruction itself does nothing on those that do not know it.
//!
//! `unsafe` here is sound because
//! 1. the instruction is a hint: it reads and writes nothing that the program could see, whatever the address.

/// Asks the processor for the cache line of the value's first byte, which this thread is about to write.
///
/// Lines asked for together come together. Writes to lines that other processors have wait for one another.
#[inline(always)]
pub fn prefetch_to_write<T>(value: &T) {
    #[cfg(all(target_arch = "x86_64", not(cedrat_shuttle)))]
    // SAFETY: 1.
    unsafe {
        std::arch::asm!(
            "prefetchw [{}]",
            in(reg) std::ptr::from_ref(value),
            options(readonly, nostack, preserves_flags)
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(cedrat_shuttle))))]
    let _ = value;
}
