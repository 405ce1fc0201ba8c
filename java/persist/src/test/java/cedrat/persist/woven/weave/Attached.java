package cedrat.persist.woven.weave;

import cedrat.persist.Transaction;
import cedrat.persist.record.TestStore;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;

/// A program that waits for the agent, for other processes.
final class Attached {
    private static int count;

    private Attached() {}

    /// @param arguments what is loaded before the agent is there
    public static void main(String[] arguments) throws IOException, ReflectiveOperationException {
        for (String name : arguments) {
            Class.forName(name);
        }
        System.out.println("ready");
        if (System.in.read() < 0) {
            throw new IllegalStateException("the agent was not loaded");
        }
        try {
            Launched.main(arguments);
        } catch (IllegalStateException e) {
            System.out.println(e.getMessage());
        }
        try (TestStore store = new TestStore()) {
            System.out.println("a store is open: " + store);
        } catch (IllegalStateException e) {
            System.out.println(e.getMessage());
        }
        // This method is the one that was loaded, as long as it runs.
        try (var transaction = Transaction.begin()) {
            count++;
            transaction.commit();
        } catch (IllegalStateException e) {
            System.out.println("count " + count + ": " + e.getMessage());
        }
    }

    /// Refers to a method whose calls need barriers.
    static final class Referring {
        private Referring() {}

        static void add(List<String> texts, ConcurrentLinkedQueue<String> queue) {
            texts.forEach(queue::add);
        }
    }
}
