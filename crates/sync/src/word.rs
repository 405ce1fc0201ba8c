//! A word on which threads sleep: the cheapest way to wake many threads with one call.

#[cfg(all(target_os = "linux", not(cedrat_shuttle)))]
pub use futex::WaitWord;
#[cfg(not(all(target_os = "linux", not(cedrat_shuttle))))]
pub use portable::WaitWord;

#[cfg(all(target_os = "linux", not(cedrat_shuttle)))]
mod futex {
    use crate::atomic::{AtomicU32, Ordering};
    use rustix::thread::futex::{self, Flags, Timespec};
    use std::time::Duration;

    /// A number that threads can wait to see changed.
    #[derive(Debug, Default)]
    pub struct WaitWord(AtomicU32);

    impl WaitWord {
        /// A word with this number in it.
        pub const fn new(value: u32) -> WaitWord {
            WaitWord(AtomicU32::new(value))
        }

        /// The number now.
        pub fn load(&self) -> u32 {
            self.0.load(Ordering::Acquire)
        }

        /// Changes the number. Wakes nobody.
        pub fn store(&self, value: u32) {
            self.0.store(value, Ordering::Release);
        }

        /// Changes the number from `from` to `to`, if it is `from`; says whether it was. Wakes nobody.
        pub fn change(&self, from: u32, to: u32) -> bool {
            self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        }

        /// Sleeps while the number is `expected`, until woken or `at_most` is over. May return for no reason.
        pub fn wait(&self, expected: u32, at_most: Option<Duration>) {
            let time = at_most.map(|time| Timespec {
                tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: time.subsec_nanos().into(),
            });
            // Whatever the answer, the caller looks at the number again.
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

#[cfg(not(all(target_os = "linux", not(cedrat_shuttle))))]
mod portable {
    use crate::atomic::{AtomicU32, Ordering};
    use crate::{Condvar, Mutex};
    use std::time::Duration;

    /// A number that threads can wait to see changed.
    #[derive(Debug, Default)]
    pub struct WaitWord {
        value: AtomicU32,
        /// Between looking at the number and sleeping nobody wakes.
        gate: Mutex<()>,
        woken: Condvar,
    }

    impl WaitWord {
        /// A word with this number in it.
        pub const fn new(value: u32) -> WaitWord {
            WaitWord { value: AtomicU32::new(value), gate: Mutex::new(()), woken: Condvar::new() }
        }

        /// The number now.
        pub fn load(&self) -> u32 {
            self.value.load(Ordering::Acquire)
        }

        /// Changes the number. Wakes nobody.
        pub fn store(&self, value: u32) {
            self.value.store(value, Ordering::Release);
        }

        /// Changes the number from `from` to `to`, if it is `from`; says whether it was. Wakes nobody.
        pub fn change(&self, from: u32, to: u32) -> bool {
            self.value.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        }

        /// Sleeps while the number is `expected`, until woken or `at_most` is over. May return for no reason.
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
    use super::WaitWord;
    use crate::{Arc, explore, thread};

    #[test]
    fn whoever_sleeps_is_woken() {
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
