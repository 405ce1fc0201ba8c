package cedrat.persist.record;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cedrat.persist.memory.Slot;
import org.junit.jupiter.api.Test;

class UndoLogTest {
    private static final Slot BROKEN = new Slot() {
        @Override
        public void restore(Object base, int index, long bits, Object value) {
            throw (RuntimeException) value;
        }
    };

    @Test
    void failedEntryDoesNotStopRollback() {
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

    /// Few are looked through, and more have a table: each level knows its own among any number.
    @Test
    void eachIsFoundAmongFewAndMany() {
        for (int outer = 0; outer < 12; outer++) {
            for (int inner = 0; inner < 12; inner++) {
                int[] array = new int[24];
                UndoLog log = new UndoLog();
                keep(log, array, 0, outer);
                keep(log, array, outer / 2, outer / 2 + inner);
                for (int i = 0; i < array.length; i++) {
                    assertEquals(
                            i < Math.max(outer, inner == 0 ? 0 : outer / 2 + inner),
                            log.has(0, array, Slot.ELEMENT, i));
                    boolean isInner = i >= outer / 2 && i < outer / 2 + inner;
                    assertEquals(isInner, log.has(outer, array, Slot.ELEMENT, i));
                    assertFalse(log.has(0, array, BROKEN, i));
                    assertFalse(log.has(0, new int[24], Slot.ELEMENT, i));
                }
                log.merge(0, outer);
                assertEquals(Math.max(outer, inner == 0 ? 0 : outer / 2 + inner), log.size());
                for (int i = 0; i < array.length; i++) {
                    assertEquals(i < log.size(), log.has(0, array, Slot.ELEMENT, i));
                }
                log.restore(0);
                for (int i = 0; i < array.length; i++) {
                    assertFalse(log.has(0, array, Slot.ELEMENT, i));
                }
            }
        }
    }

    private static void keep(UndoLog log, int[] array, int from, int to) {
        for (int i = from; i < to; i++) {
            log.add(array, Slot.ELEMENT, i, array[i], null);
        }
    }
}
