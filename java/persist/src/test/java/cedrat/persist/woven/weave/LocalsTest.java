package cedrat.persist.woven.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.persist.Transaction;
import cedrat.persist.Transaction.Action;
import org.junit.jupiter.api.Test;

/// J6: locals and parameters that a scope assigns are restored when it is rolled back.
class LocalsTest {
    private int field;

    private static String readsOfEachTypeLoad(
            boolean commits, boolean z, byte b, char c, short s, int i, long j, float f, double d, String l) {
        boolean z2 = z;
        byte b2 = b;
        char c2 = c;
        short s2 = s;
        int i2 = i;
        long j2 = j;
        float f2 = f;
        double d2 = d;
        Object l2 = l;
        int[] array = {1};
        try (var transaction = Transaction.begin()) {
            z = z2 = !z;
            b = b2 = 9;
            c = c2 = 'z';
            s = s2 = 9;
            i++;
            i2 += 5;
            j = j2 = 9;
            f = f2 = 9;
            d = d2 = 9;
            l = "other";
            l2 = 9;
            array = new int[] {2};
            int inner = 5;
            inner++;
            i2 += inner;
            if (commits) {
                transaction.commit();
            }
        }
        return "" + z + b + c + s + i + j + f + d + l + z2 + b2 + c2 + s2 + i2 + j2 + f2 + d2 + l2 + array[0];
    }

    /// J6.
    @Test
    void localsOfEachTypeAreRestored() {
        assertEquals(
                "true1a2345.06.0ltrue1a2345.06.0l1",
                readsOfEachTypeLoad(false, true, (byte) 1, 'a', (short) 2, 3, 4, 5f, 6, "l"));
    }

    /// In the place of `later` lies what `gone` has left, of another type.
    private static int unassigned() {
        {
            Runnable gone = () -> {};
            gone.run();
        }
        CharSequence later;
        try (var transaction = Transaction.begin()) {
            later = "text";
            transaction.rollback();
        }
        return later.length();
    }

    @Test
    void unassignedLocalKeepsItsNewValue() {
        assertEquals(4, unassigned());
    }

    private static int assignedInAnOuterTry(int number) {
        int sum;
        try {
            sum = number;
            try (var transaction = Transaction.begin()) {
                sum += 5;
                transaction.rollback();
            }
        } catch (IllegalStateException thrown) {
            return -1;
        }
        return sum;
    }

    @Test
    void aTryAroundTheScopeChangesNothing() {
        assertEquals(3, assignedInAnOuterTry(3));
    }

    @Test
    void localsOfEachTypeSurviveCommit() {
        assertEquals(
                "false9z9499.09.0otherfalse9z91499.09.092",
                readsOfEachTypeLoad(true, true, (byte) 1, 'a', (short) 2, 3, 4, 5f, 6, "l"));
    }

    /// J6.
    @Test
    void areRestoredWhereRollbackIsCalled() {
        int x = 1;
        String text = "a";
        try (var transaction = Transaction.begin()) {
            x = 2;
            text = "b";
            transaction.rollback();
            assertEquals(1, x);
            assertEquals("a", text);
            x = 3;
        }
        assertEquals(3, x, "assigned after the transaction");
        assertEquals("a", text);
    }

    @Test
    void areRestoredWhenAnExceptionLeaves() {
        int x = 1;
        try (var transaction = Transaction.begin()) {
            x = 2;
            transaction.defaultAction(Action.ROLLBACK);
            throw new IllegalArgumentException();
        } catch (IllegalArgumentException e) {
            x += 10;
        } finally {
            x += 100;
        }
        assertEquals(111, x);
    }

    @Test
    void areRestoredInLoops() {
        int sum = 0;
        int last = -1;
        for (int i = 0; i < 10; i++) {
            try (var transaction = Transaction.begin()) {
                sum += i;
                last = i;
                if (i % 3 == 0) {
                    continue;
                }
                if (i == 8) {
                    break;
                }
                transaction.commit();
            }
        }
        assertEquals(1 + 2 + 4 + 5 + 7, sum);
        assertEquals(7, last);
    }

    private int returned(int x) {
        try (var transaction = Transaction.begin()) {
            x += 5;
            field = x;
            return transaction.isOpen() ? x : 0;
        }
    }

    @Test
    void resultKeepsItsValueAtReturn() {
        assertEquals(6, returned(1));
        assertEquals(0, field);
    }

    @Test
    void nestedLocalsAreRestoredByLevel() {
        int x = 1;
        long y = 1;
        try (var outer = Transaction.begin()) {
            x = 2;
            try (var inner = Transaction.begin()) {
                x = 3;
                y = 3;
                inner.rollback();
            }
            assertEquals(2, x);
            assertEquals(1, y);
            try (var inner = Transaction.begin()) {
                x = 4;
                y = 4;
                inner.commit();
            }
            assertEquals(4, x);
            outer.rollback();
            assertEquals(1, x);
        }
        assertEquals(1, x);
        assertEquals(1, y);
    }

    private static void rollBack(Transaction transaction) {
        transaction.rollback();
    }

    @Test
    void rollbackInOtherMethodRestoresAtEnd() {
        int x = 1;
        try (var transaction = Transaction.begin()) {
            x = 2;
            rollBack(transaction);
            assertEquals(2, x);
        }
        assertEquals(1, x);
    }

    @Test
    void stayIfTheDefaultActionIsCommit() {
        int x = 1;
        try (var transaction = Transaction.begin()) {
            transaction.defaultAction(Action.COMMIT);
            x = 2;
        }
        assertEquals(2, x);
    }

    /// The locals of an ended block are used again.
    @Test
    void reusedLocalIsNotMixedUp() {
        {
            String before = "before";
            String beforeToo = "before, too";
            assertEquals(6, before.length());
            assertEquals(11, beforeToo.length());
        }
        String kept;
        try (var transaction = Transaction.begin()) {
            String after = "after";
            transaction.rollback();
            kept = after;
            for (int i = 0; i < 3; i++) {
                kept += i;
            }
        }
        assertEquals("after012", kept);
    }
}
