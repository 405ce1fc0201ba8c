package cedrat.persist.woven.weave;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cedrat.persist.Transaction;
import cedrat.persist.Transaction.Action;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/// Every way of leaving a transaction, in each form, with what it does to fields, arrays, statics,
/// collections, locals and parameters (Transactions for Java, §2.1).
class LeavingTest {
    private static final class Leaving extends Exception {
        private static final long serialVersionUID = 1;
    }

    private static int count;

    private int field;
    private final int[] array = new int[2];
    private final List<String> list = new ArrayList<>(List.of("first"));

    private void change() {
        field++;
        array[1]++;
        count++;
        list.add("more");
    }

    /// Runs `work`, and says how often [#change] was called in it and is not undone.
    private int kept(Runnable work) {
        int before = field;
        int beforeInArray = array[1];
        int beforeInClass = count;
        int beforeInList = list.size();
        work.run();
        int kept = field - before;
        assertEquals(kept, array[1] - beforeInArray);
        assertEquals(kept, count - beforeInClass);
        assertEquals(kept, list.size() - beforeInList);
        return kept;
    }

    // ---- try

    private void leaveTry(boolean commits) {
        try (var transaction = Transaction.begin()) {
            change();
            if (commits) {
                transaction.commit();
            } else {
                transaction.rollback();
            }
        }
    }

    @Test
    void tryIsLeftByCommitOrRollback() {
        assertEquals(1, kept(() -> leaveTry(true)));
        assertEquals(0, kept(() -> leaveTry(false)));
    }

    private void end(Action action) {
        try (var transaction = Transaction.begin()) {
            transaction.defaultAction(action);
            change();
        }
    }

    @Test
    void tryIsLeftAtItsEnd() {
        assertEquals(0, kept(() -> end(Action.ROLLBACK)));
        assertEquals(1, kept(() -> end(Action.COMMIT)));
    }

    private void fail(Action action) throws Leaving {
        try (var transaction = Transaction.begin()) {
            transaction.defaultAction(action);
            change();
            throw new Leaving();
        }
    }

    @Test
    void tryIsLeftByAnException() {
        assertEquals(0, kept(() -> assertThrows(Leaving.class, () -> fail(Action.ROLLBACK))));
        assertEquals(1, kept(() -> assertThrows(Leaving.class, () -> fail(Action.COMMIT))));
    }

    @SuppressWarnings("try") // a transaction that nothing commits
    private void caughtAndThrownAgain() throws Leaving {
        try (var transaction = Transaction.begin()) {
            try {
                change();
                throw new Leaving();
            } catch (Leaving e) {
                change();
                throw e;
            } finally {
                change();
            }
        }
    }

    @Test
    void tryIsLeftByRethrownException() {
        assertEquals(0, kept(() -> assertThrows(Leaving.class, this::caughtAndThrownAgain)));
    }

    private void caughtInside() {
        try (var transaction = Transaction.begin()) {
            try {
                change();
                throw new Leaving();
            } catch (Leaving e) {
                change();
            }
            transaction.commit();
        }
    }

    @Test
    void exceptionCaughtInsideDoesNothing() {
        assertEquals(2, kept(this::caughtInside));
    }

    private void breakAndContinue(boolean commits) {
        for (int i = 0; i < 5; i++) {
            try (var transaction = Transaction.begin()) {
                change();
                if (commits) {
                    transaction.commit();
                }
                if (i == 3) {
                    break;
                }
                if (i < 3) {
                    continue;
                }
                throw new AssertionError("not reached");
            }
        }
    }

    @Test
    void tryIsLeftByBreakAndContinue() {
        assertEquals(4, kept(() -> breakAndContinue(true)));
        assertEquals(0, kept(() -> breakAndContinue(false)));
    }

    @SuppressWarnings("try") // a transaction that nothing commits
    private void breakToALabel() {
        outer:
        while (true) {
            try (var transaction = Transaction.begin()) {
                change();
                while (true) {
                    try (var nested = Transaction.begin()) {
                        change();
                        nested.commit();
                        break outer;
                    }
                }
            }
        }
    }

    @Test
    void tryIsLeftByLabeledBreak() {
        assertEquals(0, kept(this::breakToALabel));
    }

    private int returning(boolean commits) {
        try (var transaction = Transaction.begin()) {
            change();
            if (commits) {
                transaction.commit();
            }
            return field;
        }
    }

    @Test
    void tryIsLeftByReturn() {
        assertEquals(1, kept(() -> assertEquals(field + 1, returning(true))));
        assertEquals(0, kept(() -> assertEquals(field + 1, returning(false))));
    }

    private void nestedTry(boolean innerCommits, boolean outerCommits) {
        try (var outer = Transaction.begin()) {
            change();
            try (var inner = Transaction.begin()) {
                change();
                change();
                if (innerCommits) {
                    inner.commit();
                }
            }
            if (outerCommits) {
                outer.commit();
            }
        }
    }

    @Test
    void nestedTriesAreLeft() {
        assertEquals(3, kept(() -> nestedTry(true, true)));
        assertEquals(1, kept(() -> nestedTry(false, true)));
        assertEquals(0, kept(() -> nestedTry(true, false)));
        assertEquals(0, kept(() -> nestedTry(false, false)));
    }

    // ---- lambdas

    @Test
    void aLambdaIsLeftByReturn() {
        assertEquals(1, kept(() -> Transaction.run(this::change)));
        assertEquals(1, kept(() -> {
            int result = Transaction.call(() -> {
                change();
                return field;
            });
            assertEquals(field, result);
        }));
    }

    @Test
    void lambdaIsLeftByCommitOrRollback() {
        assertEquals(
                1,
                kept(() -> Transaction.run(transaction -> {
                    change();
                    transaction.commit();
                })));
        assertEquals(
                0,
                kept(() -> Transaction.run(transaction -> {
                    change();
                    transaction.rollback();
                })));
        assertEquals(
                0,
                kept(() -> assertEquals("result", Transaction.call(transaction -> {
                    change();
                    transaction.rollback();
                    return "result";
                }))));
    }

    @Test
    void aLambdaIsLeftByAnException() {
        assertEquals(
                0,
                kept(() -> assertThrows(
                        Leaving.class,
                        () -> Transaction.run(() -> {
                            change();
                            throw new Leaving();
                        }))));
        assertEquals(
                1,
                kept(() -> assertThrows(
                        Leaving.class,
                        () -> Transaction.run(transaction -> {
                            change();
                            transaction.commit();
                            throw new Leaving();
                        }))));
    }

    @Test
    void nestedLambdasAreLeft() {
        assertEquals(
                1,
                kept(() -> Transaction.run(() -> {
                    change();
                    assertThrows(
                            Leaving.class,
                            () -> Transaction.run(() -> {
                                change();
                                throw new Leaving();
                            }));
                })));
        assertEquals(
                0,
                kept(() -> Transaction.run(outer -> {
                    Transaction.run(this::change);
                    outer.rollback();
                })));
    }

    // ---- try … finally, as it was written before there were resources

    private void withFinally(boolean commits) {
        Transaction transaction = Transaction.begin();
        try {
            change();
            if (commits) {
                transaction.commit();
            }
        } finally {
            transaction.close();
        }
    }

    @Test
    void finallyClosesToo() {
        assertEquals(1, kept(() -> withFinally(true)));
        assertEquals(0, kept(() -> withFinally(false)));
    }
}
