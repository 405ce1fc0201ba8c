package cedrat.persist.nativestore;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/// Memory for what one call of the library is given and returns.
///
/// **Threads:** one at a time.
final class Buffer {
    /// Size that suffices for most calls.
    static final long BYTES = 64 << 10;

    /// Freed with this object, so that no call asks whether it is there yet.
    private final MemorySegment usual = Arena.ofAuto().allocate(BYTES, Long.BYTES);
    /// Arena of a longer buffer than usual, or null.
    private Arena arena;
    /// At least as long as was asked for.
    MemorySegment bytes = usual;
    /// For a result of eight bytes each.
    final MemorySegment result = Arena.ofAuto().allocate(2 * Long.BYTES, Long.BYTES);

    void ensure(long size) {
        if (bytes.byteSize() < size) {
            Arena larger = Arena.ofShared();
            try {
                bytes = larger.allocate(size, Long.BYTES);
            } catch (OutOfMemoryError e) {
                larger.close();
                throw e;
            }
            closeArena();
            arena = larger;
        }
    }

    long result() {
        return result.get(JAVA_LONG, 0);
    }

    /// No longer than usual any more.
    void shrink() {
        if (arena != null) {
            bytes = usual;
            closeArena();
        }
    }

    private void closeArena() {
        if (arena != null) {
            arena.close();
            arena = null;
        }
    }
}
