package cedrat.persist.boot;

import jdk.internal.misc.Unsafe;

/// Layout of object headers: shows whether an object may have an identity hash code, without computing one.
///
/// Everything that is locked, and everything persistent that has no field for its identity, is found in tables by its
/// identity hash code. So an object without one is in none of them (J2e).
///
/// The layout of the header is not specified. It is found by experiments when the class is initialised. If they do
/// not agree, every object may have an identity hash code.
///
/// **Threads:** any. The header is read as a plain field would be.
final class Header {
    /// Number of objects of the experiments.
    private static final int SAMPLES = 16;

    private static final int HASH_BITS = 31;
    private static final long HASH_MAX = (1L << HASH_BITS) - 1;
    /// The two lowest bits say where the header of an object is whose monitor is entered.
    private static final long LOCK_BITS = 3;
    private static final long UNLOCKED = 1;

    private static final Unsafe UNSAFE = Unsafe.getUnsafe();
    /// The bits of the header that are [#UNHASHED] if an object has no identity hash code. 0 if they are not known.
    private static final long MASK;

    private static final long UNHASHED;

    static {
        int shift = hashShift();
        boolean isKept = shift >= 0 && isKeptInMonitor(shift);
        if (shift < 0) {
            MASK = 0;
            UNHASHED = 1;
        } else {
            // The lowest bit is 1 unless a monitor is entered.
            MASK = HASH_MAX << shift | (isKept ? LOCK_BITS & ~UNLOCKED : LOCK_BITS);
            UNHASHED = isKept ? 0 : UNLOCKED;
        }
    }

    private Header() {}

    /// Whether an object may have an identity hash code.
    static boolean mayHaveHash(Object object) {
        return (read(object) & MASK) != UNHASHED;
    }

    /// Whether the layout of headers is known.
    static boolean isKnown() {
        return MASK != 0;
    }

    private static long read(Object object) {
        return UNSAFE.getLong(object, 0L);
    }

    /// Returns by how many bits the hash code is shifted, or -1.
    private static int hashShift() {
        for (int shift = 0; shift <= Long.SIZE - HASH_BITS; shift++) {
            if (isShift(shift)) {
                return shift;
            }
        }
        return -1;
    }

    private static boolean isShift(int shift) {
        for (int i = 0; i < SAMPLES; i++) {
            Object object = new Object();
            long before = read(object);
            int hash = System.identityHashCode(object);
            long after = read(object);
            boolean isUnlocked = (before & LOCK_BITS) == UNLOCKED && (after & LOCK_BITS) == UNLOCKED;
            if (!isUnlocked || hash(before, shift) != 0 || hash(after, shift) != hash) {
                return false;
            }
        }
        return true;
    }

    private static long hash(long header, int shift) {
        return header >>> shift & HASH_MAX;
    }

    /// Whether the hash code stays in the header while a thread is in the object's monitor.
    private static boolean isKeptInMonitor(int shift) {
        for (int i = 0; i < SAMPLES; i++) {
            Object object = new Object();
            synchronized (object) {
                long header = read(object);
                if ((header & LOCK_BITS) != 0 || hash(header, shift) != 0) {
                    return false;
                }
            }
            int hash = System.identityHashCode(object);
            synchronized (object) {
                long header = read(object);
                if ((header & LOCK_BITS) != 0 || hash(header, shift) != hash) {
                    return false;
                }
            }
        }
        return true;
    }
}
