package cedrat.persist;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;

class UndoLogTest {
    private static final Slot BROKEN = new Slot() {
        @Override
        void restore(Object base, int index, long bits, Object value) {
            throw (RuntimeException) value;
        }
    };

    @Test
    void whatCanBeRestoredIsRestoredWhateverElseCannot() {
        UndoLog log = new UndoLog();
        int[] array = {10, 20, 30};
        RuntimeException first = new IllegalStateException();
        RuntimeException second = new IllegalStateException();
        log.add(array, Slot.ELEMENT, 0, 1, null);
        log.add(array, BROKEN, 0, 0, second);
        log.add(array, Slot.ELEMENT, 1, 2, null);
        log.add(array, BROKEN, 1, 0, first);
        log.add(array, Slot.ELEMENT, 2, 3, null);
        assertSame(first, assertThrows(IllegalStateException.class, () -> log.restore(0)));
        assertArrayEquals(new Throwable[] {second}, first.getSuppressed());
        assertArrayEquals(new int[] {1, 2, 3}, array);
        assertEquals(0, log.size());
    }
}
