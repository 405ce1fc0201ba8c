//! Both implementations behave alike. The second run takes `RUSTFLAGS="--cfg cedrat_shuttle"`.

use cedrat_sync::atomic::{AtomicU64, Ordering};
use cedrat_sync::{Arc, Condvar, Mutex, RwLock, explore, spin_hint, thread};

#[test]
fn a_mutex_excludes_and_a_condvar_wakes() {
    explore(1, 200, || {
        let shared = Arc::new((Mutex::new(0u32), Condvar::new()));
        let others: Vec<_> = (0..3)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || {
                    *shared.0.lock() += 1;
                    shared.1.notify_all();
                })
            })
            .collect();
        let mut count = shared.0.lock();
        while *count < 3 {
            shared.1.wait(&mut count);
        }
        drop(count);
        for other in others {
            other.join().unwrap();
        }
        assert!(shared.0.try_lock().is_some());
    });
}

#[test]
fn a_spinning_thread_lets_others_run() {
    explore(2, 200, || {
        let flag = Arc::new(AtomicU64::new(0));
        let setter = flag.clone();
        let other = thread::spawn(move || setter.store(1, Ordering::Release));
        while flag.load(Ordering::Acquire) == 0 {
            spin_hint();
        }
        other.join().unwrap();
    });
}

#[test]
fn readers_share_and_writers_exclude() {
    explore(3, 100, || {
        let lock = RwLock::new(7);
        let first = lock.read();
        assert!(lock.try_write().is_none());
        assert_eq!(*first, 7);
        drop(first);
        *lock.write() = 8;
        assert_eq!(lock.into_inner(), 8);
    });
}

#[test]
fn scoped_threads_borrow() {
    explore(4, 100, || {
        let total = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| total.fetch_add(1, Ordering::Relaxed));
            }
        });
        assert_eq!(total.load(Ordering::Relaxed), 2);
    });
}
