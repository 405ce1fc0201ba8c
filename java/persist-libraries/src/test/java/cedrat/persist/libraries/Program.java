package cedrat.persist.libraries;

import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/// Stores an object of each kind, or compares the stored ones with plain copies in another process.
///
/// Arguments: `store`, `change` or `compare`; the directory of the store; the file of the results, a line a kind.
final class Program {
    /// An object that is refused, and the reason.
    static final String REFUSED = "REFUSED";
    /// An object that is as it should be.
    static final String WORKS = "WORKS";
    /// The end of the result of an object that works, and may be read in transactions only.
    static final String IN_TRANSACTIONS = " in transactions";
    /// An object that is not.
    static final String WRONG = "WRONG";

    private final Store store;

    private Program(Store store) {
        this.store = store;
    }

    public static void main(String[] arguments) throws IOException {
        List<String> results = new ArrayList<>();
        try (Store store = Store.open(Path.of(arguments[1]), new StoreOptions())) {
            Program program = new Program(store);
            for (Kind<?> kind : Kinds.all()) {
                if (arguments[0].equals("store") || store.rootNames().contains(name(kind))) {
                    String result = program.result(kind, arguments[0]);
                    results.add(kind.library() + "\t" + kind.name() + "\t" + result.replaceAll("\\s+", " "));
                }
            }
            if (!arguments[0].equals("store")) {
                store.collect();
            }
        }
        Files.write(Path.of(arguments[2]), results);
    }

    private static String name(Kind<?> kind) {
        return kind.library() + ", " + kind.name();
    }

    private String result(Kind<?> kind, String mode) {
        PrintStream errors = System.err;
        try {
            return switch (mode) {
                case "store" -> store(kind);
                case "change" -> change(kind);
                default -> compare(kind, true, "after it was changed");
            };
        } catch (RuntimeException | Error | IOException e) {
            errors.println(kind);
            e.printStackTrace(errors);
            return WRONG + " " + mode + ": " + e + at(e);
        }
    }

    private static String at(Throwable thrown) {
        StackTraceElement[] trace = thrown.getStackTrace();
        StringBuilder at = new StringBuilder();
        for (int i = 0; i < Math.min(6, trace.length); i++) {
            at.append(" at ").append(trace[i].getClassName()).append('.').append(trace[i].getMethodName());
        }
        return at.toString();
    }

    private String store(Kind<?> kind) {
        Object made = kind.make().get();
        try {
            Transaction.run(() -> store.setRoot(name(kind), made));
        } catch (StoreException e) {
            return REFUSED + " " + e.getMessage();
        }
        return same(kind, made, false, "once it is stored");
    }

    /// Compares a loaded object, and changes it: by a transaction that is rolled back, and by one that is not.
    private String change(Kind<?> kind) throws IOException {
        String result = compare(kind, false, "once it is loaded");
        if (!result.startsWith(WORKS)) {
            return result;
        }
        try (Transaction transaction = Transaction.begin()) {
            Object changed = kind.changed(store.root(name(kind), Object.class));
            store.setRoot(name(kind), changed);
            transaction.rollback();
        }
        result = compare(kind, false, "after a rollback");
        if (!result.startsWith(WORKS)) {
            return result;
        }
        try {
            Transaction.run(() -> store.setRoot(name(kind), kind.changed(store.root(name(kind), Object.class))));
        } catch (StoreException e) {
            store.removeRoot(name(kind));
            return REFUSED + " " + e.getMessage();
        }
        return compare(kind, true, "once it is changed");
    }

    private String compare(Kind<?> kind, boolean isChanged, String when) {
        return same(kind, store.root(name(kind), Object.class), isChanged, when);
    }

    private static Object plain(Kind<?> kind, boolean isChanged) {
        Object made = kind.make().get();
        return isChanged ? kind.changed(made) : made;
    }

    /// Compares an object with plain copies; in a transaction, if it assigns to its fields when it is read.
    private static String same(Kind<?> kind, Object found, boolean isChanged, String when) {
        Object plain = plain(kind, isChanged);
        Object other = plain(kind, isChanged);
        boolean hasValue = kind.hasEquals() && plain.equals(other) && plain.hashCode() == other.hashCode();
        String refusal;
        try {
            return same(kind, found, plain, hasValue, when);
        } catch (IllegalStateException e) {
            if (!e.getMessage().contains("within a transaction")) {
                throw e;
            }
            refusal = name(kind) + ": " + e.getMessage() + at(e);
        }
        System.err.println(refusal);
        try (Transaction transaction = Transaction.begin()) {
            String result = same(kind, found, plain, hasValue, when);
            transaction.rollback();
            return result + (result.equals(WORKS) ? IN_TRANSACTIONS : "");
        }
    }

    private static String same(Kind<?> kind, Object found, Object plain, boolean hasValue, String when) {
        String expected = kind.shown(plain);
        String shown = kind.shown(found);
        if (!shown.equals(expected)) {
            return WRONG + " " + when + ": " + shown + ", and not " + expected;
        }
        boolean isEqual =
                !hasValue || plain.equals(found) && found.equals(plain) && found.hashCode() == plain.hashCode();
        return isEqual ? WORKS : WRONG + " " + when + ": " + shown + " is not equal to its copy";
    }
}
