package cedrat.persist.nativestore;

import java.util.concurrent.atomic.AtomicReferenceArray;

/// Buffers that no call has. A thread begins to look at a place of its own, so that threads are mostly not in
/// each other's way.
///
/// **Threads:** any.
final class Buffers {
    /// Maximum number of buffers that are kept for later calls.
    private static final int COUNT_MAX = 16;

    private final AtomicReferenceArray<Buffer> free = new AtomicReferenceArray<>(COUNT_MAX);

    private static int place(int turn) {
        return (int) Thread.currentThread().threadId() + turn & COUNT_MAX - 1;
    }

    Buffer take() {
        for (int turn = 0; turn < COUNT_MAX; turn++) {
            Buffer buffer = free.get(place(turn));
            if (buffer != null && free.compareAndSet(place(turn), buffer, null)) {
                return buffer;
            }
        }
        return new Buffer();
    }

    void give(Buffer buffer) {
        buffer.shrink();
        for (int turn = 0; turn < COUNT_MAX; turn++) {
            if (free.get(place(turn)) == null && free.compareAndSet(place(turn), null, buffer)) {
                return;
            }
        }
    }

    void clear() {
        for (int place = 0; place < COUNT_MAX; place++) {
            free.set(place, null);
        }
    }
}
