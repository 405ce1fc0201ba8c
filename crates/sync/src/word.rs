//! A word on which threads sleep: the cheapest way to wake many threads with one call.

// Miri refuses the types with which rustix makes the system call.
#[cfg(all(target_os = "linux", not(any(cedrat_shuttle, miri))))]
pub use futex::WaitWord;
#[cfg(not(all(target_os = "linux", not(any(cedrat_shuttle, miri)))))]
pub use portable::WaitWord;

#[cfg(all(target_os = "linux", not(any(cedrat_shuttle, miri))))]
mod futex {
    use rustix::thread::futex::{self, Flags, Timespec};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    /// An integer whose change threads can wait for.
    #[derive(Debug, Default)]
    pub struct WaitWord(AtomicU32);

    impl WaitWord {
        /// Creates a word that holds `value`.
        pub const fn new(value: u32) -> WaitWord {
            WaitWord(AtomicU32::new(value))
        }

        /// Returns the current value.
        pub fn load(&self) -> u32 {
            self.0.load(Ordering::Acquire)
        }

        /// Sets the value without waking a thread.
        pub fn store(&self, value: u32) {
            self.0.store(value, Ordering::Release);
        }

        /// Sets the value to `to` if it is `from`, and returns whether it was. Wakes no thread.
        pub fn change(&self, from: u32, to: u32) -> bool {
            self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        }

        /// Sleeps while the value is `expected`, until a wake-up or until `at_most` has elapsed. May return
        /// spuriously.
        pub fn wait(&self, expected: u32, at_most: Option<Duration>) {
            let time = at_most.map(|time| Timespec {
                tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: time.subsec_nanos().into(),
            });
            // Whatever the result, the caller reads the value again.
            let _ = futex::wait(&self.0, Flags::PRIVATE, expected, time.as_ref());
        }

        /// Wakes one of the threads that sleep on the word.
        pub fn wake_one(&self) {
            let _ = futex::wake(&self.0, Flags::PRIVATE, 1); // fails for a bad address only
        }

        /// Wakes all threads that sleep on the word.
        pub fn wake_all(&self) {
            let _ = futex::wake(&self.0, Flags::PRIVATE, i32::MAX as u32); // as above
        }
    }
}

#[cfg(not(all(target_os = "linux", not(any(cedrat_shuttle, miri)))))]
mod portable {
    use crate::atomic::{AtomicU32, Ordering};
    use crate::{Condvar, Mutex};
    use std::time::Duration;

    /// An integer whose change threads can wait for.
    #[derive(Debug, Default)]
    pub struct WaitWord {
        value: AtomicU32,
        /// Held between the check of the value and the sleep, so that no wake-up is lost in between.
        gate: Mutex<()>,
        woken: Condvar,
    }

    impl WaitWord {
        /// Creates a word that holds `value`.
        pub const fn new(value: u32) -> WaitWord {
            WaitWord { value: AtomicU32::new(value), gate: Mutex::new(()), woken: Condvar::new() }
        }

        /// Returns the current value.
        pub fn load(&self) -> u32 {
            self.value.load(Ordering::Acquire)
        }

        /// Sets the value without waking a thread.
        pub fn store(&self, value: u32) {
            self.value.store(value, Ordering::Release);
        }

        /// Sets the value to `to` if it is `from`, and returns whether it was. Wakes no thread.
        pub fn change(&self, from: u32, to: u32) -> bool {
            self.value.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        }

        /// Sleeps while the value is `expected`, until a wake-up or until `at_most` has elapsed. May return
        /// spuriously.
        pub fn wait(&self, expected: u32, at_most: Option<Duration>) {
            let mut gate = self.gate.lock();
            if self.load() == expected {
                match at_most {
                    Some(time) => {
                        self.woken.wait_for(&mut gate, time);
                    }
                    None => self.woken.wait(&mut gate),
                }
            }
        }

        /// Wakes one of the threads that sleep on the word.
        pub fn wake_one(&self) {
            drop(self.gate.lock());
            self.woken.notify_one();
        }

        /// Wakes all threads that sleep on the word.
        pub fn wake_all(&self) {
            drop(self.gate.lock());
            self.woken.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Arc, WaitWord, explore, thread};

    #[test]
    fn sleeping_thread_is_woken() {
        explore(3, 500, || {
            let word = Arc::new(WaitWord::new(0));
            let sleepers: Vec<_> = (0..3)
                .map(|_| {
                    let word = Arc::clone(&word);
                    thread::spawn(move || {
                        while word.load() == 0 {
                            word.wait(0, None);
                        }
                    })
                })
                .collect();
            assert!(!word.change(1, 2));
            assert!(word.change(0, 1));
            word.wake_all();
            sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        });
    }
}
