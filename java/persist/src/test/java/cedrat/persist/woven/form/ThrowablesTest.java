package cedrat.persist.woven.form;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.StoreException;
import cedrat.persist.Transaction;
import cedrat.persist.woven.store.StoreFixture;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.NoSuchFileException;
import java.time.format.DateTimeParseException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/// J4, J5: exceptions of the JDK and of the program come back with messages, causes and stack traces.
class ThrowablesTest extends StoreFixture {
    private static class OrderException extends Exception {
        private static final long serialVersionUID = 1;

        int number;
        transient List<String> lines = new ArrayList<>();

        OrderException(String message, Throwable cause, int number) {
            super(message, cause);
            this.number = number;
        }
    }

    private static final class UnpaidException extends OrderException {
        private static final long serialVersionUID = 1;

        private final String customer;

        UnpaidException(String customer) {
            super("unpaid", null, 7);
            this.customer = customer;
        }

        @Override
        public String getMessage() {
            return super.getMessage() + " by " + customer;
        }
    }

    private static <T extends Throwable> T with(T thrown, Throwable... suppressed) {
        for (Throwable one : suppressed) {
            thrown.addSuppressed(one);
        }
        return thrown;
    }

    static Stream<Throwable> kinds() {
        return Stream.of(
                new IllegalStateException("message"),
                new IllegalStateException(),
                new RuntimeException("outer", new IllegalArgumentException("inner", null)),
                with(new Error("error"), new InterruptedException("one"), new UnpaidException("two")),
                new ExecutionException(new OrderException("cause", new Error("innermost"), 5)),
                new NoSuchFileException("a file", "another", "a reason"),
                new DateTimeParseException("message", "text", 5),
                new OrderException("message", new NullPointerException(), 5),
                with(new UnpaidException("customer"), new OrderException(null, null, 1)));
    }

    private static String show(Throwable thrown) {
        StringWriter trace = new StringWriter();
        thrown.printStackTrace(new PrintWriter(trace));
        return trace.toString();
    }

    /// J4.
    @ParameterizedTest
    @MethodSource("kinds")
    void throwableComesBackWhole(Throwable thrown) {
        String before = show(thrown);
        Throwable found = again(thrown);
        assertSame(thrown.getClass(), found.getClass());
        assertEquals(before, show(found));
        assertArrayEquals(thrown.getStackTrace(), found.getStackTrace());
        assertEquals(thrown.getSuppressed().length, found.getSuppressed().length);
    }

    /// J4.
    @Test
    void fieldsOfThrowablesComeBack() {
        UnpaidException found = again(new UnpaidException("a"));
        assertEquals(7, found.number);
        assertNull(found.lines);
        assertEquals("unpaid by a", found.getMessage());
        NoSuchFileException missing = again(new NoSuchFileException("a", "b", "c"));
        assertEquals("a b c", missing.getFile() + " " + missing.getOtherFile() + " " + missing.getReason());
        DateTimeParseException parsed = again(new DateTimeParseException("m", "text", 3));
        assertEquals("text 3", parsed.getParsedString() + " " + parsed.getErrorIndex());
    }

    /// J5, J9: the code of the JDK that changes them has barriers.
    @ParameterizedTest
    @MethodSource("kinds")
    void changedThrowableIsRestoredAndStored(Throwable thrown) {
        Throwable found = again(thrown);
        String before = show(found);
        assertThrows(IllegalStateException.class, () -> found.addSuppressed(new Error("more")));
        Transaction.run(transaction -> {
            found.addSuppressed(new Error("more"));
            found.setStackTrace(new StackTraceElement[] {new StackTraceElement("C", "m", null, 1)});
            transaction.rollback();
        });
        assertEquals(before, show(found));
        Transaction.run(() -> {
            found.addSuppressed(new Error("more"));
            found.setStackTrace(new StackTraceElement[] {new StackTraceElement("C", "m", null, 1)});
        });
        String after = show(found);
        assertTrue(after.contains("C.m") && after.contains("more"), after);
        assertEquals(after, show(reopened()));
    }

    /// J5.
    @Test
    void causeIsGivenInTransaction() {
        Throwable found = again(new RuntimeException("late"));
        assertNull(found.getCause());
        Transaction.run(() -> {
            found.initCause(new OrderException("cause", null, 3));
        });
        Throwable changed = reopened();
        assertEquals("cause", changed.getCause().getMessage());
        assertThrows(
                IllegalStateException.class,
                () -> Transaction.run(() -> {
                    changed.initCause(new Error());
                }));
    }

    /// J5: the program sees what has happened in a transaction that was rolled back.
    @Test
    void ordinaryThrowableKeepsItsChanges() {
        IllegalStateException thrown = new IllegalStateException("thrown");
        Transaction.run(transaction -> {
            thrown.addSuppressed(new Error("suppressed"));
            transaction.rollback();
        });
        assertEquals(1, thrown.getSuppressed().length);
    }

    private static final class CausedException extends Exception {
        private static final long serialVersionUID = 1;

        String cause;
    }

    private static final class MissingException extends NoSuchFileException {
        private static final long serialVersionUID = 1;

        MissingException() {
            super("file");
        }
    }

    /// J4.
    @Test
    void throwableWithForeignFieldsIsRefused() {
        for (Object object : List.of(new CausedException(), new MissingException())) {
            var thrown = assertThrows(StoreException.class, () -> store.setRoot("it", object));
            assertTrue(thrown.getMessage().contains("StoreOptions.convert"), thrown.getMessage());
        }
    }
}
