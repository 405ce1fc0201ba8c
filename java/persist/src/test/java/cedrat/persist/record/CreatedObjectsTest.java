package cedrat.persist.record;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.lock.Locks;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class CreatedObjectsTest {
    private static final int PIECE = 1 << 20;

    private static TransactionLevel begin(TopLevel top, TransactionLevel outer) {
        return new TransactionLevel(top, outer);
    }

    /// In all twice as much as there is memory.
    @Test
    void droppedObjectIsCollectedBeforeEnd() {
        TopLevel top = new TopLevel(new Locks.Owner(1), new Context(), 0);
        TransactionLevel transaction = begin(top, null);
        long pieces = 2 * Runtime.getRuntime().maxMemory() / PIECE + 4096;
        Object first = new Object();
        top.made.add(first, transaction);
        for (long i = 0; i < pieces; i++) {
            top.made.add(new byte[PIECE], transaction);
        }
        assertTrue(top.made.has(0, first));
    }

    /// Each level knows what was made since it began, whatever was dropped meanwhile.
    @Test
    void levelsKnowWhatTheyHaveMade() {
        SplittableRandom random = new SplittableRandom(7);
        TopLevel top = new TopLevel(new Locks.Owner(1), new Context(), 0);
        ArrayDeque<TransactionLevel> levels = new ArrayDeque<>();
        List<List<Object>> made = new ArrayList<>();
        levels.push(begin(top, null));
        made.add(new ArrayList<>());
        for (int step = 0; step < 60_000; step++) {
            int choice = random.nextInt(1000);
            if (choice == 0 && levels.size() < 5) {
                levels.push(begin(top, levels.peek()));
                made.add(new ArrayList<>());
            } else if (choice == 1 && levels.size() > 1) {
                TransactionLevel ended = levels.pop();
                List<Object> its = made.removeLast();
                if (random.nextBoolean()) {
                    top.made.truncate(ended.madeMark);
                    its.forEach(gone -> assertFalse(top.made.has(0, gone)));
                } else {
                    made.getLast().addAll(its);
                }
            } else {
                Object object = new Object();
                top.made.add(object, levels.peek());
                if (choice < 500) {
                    made.getLast().add(object);
                }
            }
            if (step % 20_000 == 0) {
                System.gc();
            }
        }
        int depth = levels.size();
        for (TransactionLevel level : levels) {
            depth--;
            for (int other = 0; other < made.size(); other++) {
                for (Object object : made.get(other)) {
                    assertEquals(other >= depth, top.made.has(level.madeMark, object));
                }
            }
        }
        assertFalse(top.made.has(0, new Object()));
    }

    /// Few are looked through, and more have a table.
    @Test
    void eachIsFoundAmongFewAndMany() {
        for (int count = 0; count < 40; count++) {
            TopLevel top = new TopLevel(new Locks.Owner(1), new Context(), 0);
            TransactionLevel transaction = begin(top, null);
            List<Object> made = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                made.add(new Object());
                top.made.add(made.getLast(), transaction);
            }
            for (int mark = 0; mark <= count; mark++) {
                for (int i = 0; i < count; i++) {
                    assertEquals(i >= mark, top.made.has(mark, made.get(i)));
                }
            }
            top.made.truncate(count / 2);
            for (int i = 0; i < count; i++) {
                assertEquals(i < count / 2, top.made.has(0, made.get(i)));
            }
            assertFalse(top.made.has(0, new Object()));
        }
    }
}
