package cedrat.persist.woven.form;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import cedrat.persist.woven.branch.TestXid;
import cedrat.persist.woven.form.RandomOperations.Kind;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import org.junit.jupiter.api.Test;

/// Persistent collections of each form beside plain ones that see only what commits: whatever transactions,
/// branches, rollbacks and refusals have made of them, memory and the store have the same.
class RandomCollectionsTest {
    /// The number of [Sequences].
    private static final int SEQUENCES = 300;

    private static final int TRANSACTIONS = 25;
    private static final int NESTED_MAX = 3;

    /// J9.
    @Test
    void areAsTheirCopies() {
        Sequences.run(SEQUENCES, seed -> new Sequence(seed).run());
    }

    /// A step within a transaction. Made before it, because it belongs to none.
    private sealed interface Step {
        record Operation(int collection, long number) implements Step {}

        record Nested(boolean rollsBack, List<Step> steps) implements Step {}
    }

    private static final class TakenBack extends RuntimeException {
        private static final long serialVersionUID = 1;
    }

    /// Several collections, and transactions that change them.
    private static final class Sequence {
        private final Random random;
        private final MemoryGraph graph = new MemoryGraph();
        private final List<Kind> kinds = new ArrayList<>();
        private final List<Object> copies = new ArrayList<>();
        private final List<String> history = new ArrayList<>();
        private Store store;
        private int branches;

        Sequence(long seed) {
            random = new Random(seed);
        }

        void run() throws XAException {
            List<Kind> all = RandomOperations.kinds();
            int count = 1 + random.nextInt(4);
            Object[] made = new Object[count];
            for (int i = 0; i < count; i++) {
                Kind kind = all.get(random.nextInt(all.size()));
                kinds.add(kind);
                copies.add(kind.make());
                made[i] = kind.make();
            }
            open();
            try {
                store.setRoot("collections", made);
                for (int i = 0; i < TRANSACTIONS; i++) {
                    history.add("transaction " + i);
                    transact();
                    check(store, "in memory");
                    checkStored();
                    rest();
                }
            } catch (RuntimeException | Error | XAException e) {
                try {
                    store.close();
                } catch (RuntimeException other) {
                    e.addSuppressed(other);
                }
                throw e;
            }
            store.close();
        }

        private void open() {
            StoreOptions options = new StoreOptions();
            if (random.nextInt(3) == 0) {
                options.loadedBytesMax(1);
            }
            store = Store.open(graph.open(), options);
        }

        private void rest() {
            switch (random.nextInt(8)) {
                case 0 -> {
                    history.add("opened anew");
                    store.close();
                    open();
                }
                case 1 -> {
                    history.add("collected");
                    store.collect();
                }
                default -> history.add("at once");
            }
        }

        // ---- transactions

        private void transact() throws XAException {
            switch (random.nextInt(8)) {
                case 0 -> {
                    List<Step> steps = steps(0);
                    history.add("is rolled back");
                    attempt(steps, true);
                }
                case 1 -> branch();
                case 2 -> {
                    List<Step> steps = steps(0);
                    graph.refuseCommits(random.nextBoolean());
                    try {
                        Transaction.run(() -> persistent(steps));
                        copied(steps);
                    } catch (StoreException e) {
                        history.add("refused");
                    } finally {
                        graph.refuseCommits(false);
                    }
                }
                default -> {
                    List<Step> steps = steps(0);
                    attempt(steps, false);
                    copied(steps);
                }
            }
        }

        private void attempt(List<Step> steps, boolean rollsBack) {
            try {
                Transaction.run(() -> {
                    persistent(steps);
                    if (rollsBack) {
                        throw new TakenBack();
                    }
                });
            } catch (TakenBack e) {
                // As expected. It may be nested, and the message is no part of it.
                return;
            }
        }

        private void branch() throws XAException {
            byte[] number =
                    ByteBuffer.allocate(Integer.BYTES).putInt(++branches).array();
            TestXid id = new TestXid(7, number, new byte[] {1});
            XAResource resource = store.xaResource();
            List<Step> done = new ArrayList<>();
            resource.start(id, XAResource.TMNOFLAGS);
            int transactions = 1 + random.nextInt(3);
            for (int i = 0; i < transactions; i++) {
                List<Step> steps = steps(0);
                boolean rollsBack = random.nextInt(3) == 0;
                history.add("in a branch, rolls back " + rollsBack);
                attempt(steps, rollsBack);
                if (!rollsBack) {
                    done.addAll(steps);
                }
            }
            resource.end(id, XAResource.TMSUCCESS);
            boolean commits = random.nextBoolean();
            boolean hasEnded = false;
            int phases = 1 + random.nextInt(3);
            history.add("branch in " + phases + " phases, commits " + commits);
            if (phases > 1) {
                hasEnded = resource.prepare(id) == XAResource.XA_RDONLY;
            }
            if (!hasEnded && phases > 2) {
                store.close();
                open();
                resource = store.xaResource();
            }
            // What is only read, or comes to nothing, has committed with the vote.
            if (!hasEnded && commits) {
                resource.commit(id, phases == 1);
            } else if (!hasEnded) {
                resource.rollback(id);
            }
            if (hasEnded || commits) {
                copied(done);
            }
        }

        // ---- steps

        private List<Step> steps(int level) {
            List<Step> steps = new ArrayList<>();
            int count = 1 + random.nextInt(random.nextInt(4) == 0 ? 20 : 4);
            for (int i = 0; i < count; i++) {
                int collection = random.nextInt(kinds.size());
                if (level < NESTED_MAX && random.nextInt(6) == 0) {
                    boolean rollsBack = random.nextBoolean();
                    history.add("nested, rolls back " + rollsBack);
                    steps.add(new Step.Nested(rollsBack, steps(level + 1)));
                    history.add("nested ends");
                } else {
                    Step.Operation operation = new Step.Operation(collection, random.nextLong());
                    history.add(kinds.get(collection) + " " + operation.number);
                    steps.add(operation);
                }
            }
            return steps;
        }

        private void persistent(List<Step> steps) {
            for (Step step : steps) {
                switch (step) {
                    case Step.Operation(int collection, long number) ->
                        RandomOperations.change(kinds.get(collection), collections(store)[collection], number);
                    case Step.Nested(boolean rollsBack, List<Step> inner) -> attempt(inner, rollsBack);
                }
            }
        }

        private void copied(List<Step> steps) {
            for (Step step : steps) {
                switch (step) {
                    case Step.Operation(int collection, long number) ->
                        RandomOperations.change(kinds.get(collection), copies.get(collection), number);
                    case Step.Nested(boolean rollsBack, List<Step> inner) -> {
                        if (!rollsBack) {
                            copied(inner);
                        }
                    }
                }
            }
        }

        // ---- what has become of them

        private static Object[] collections(Store store) {
            return store.root("collections", Object.class);
        }

        private void checkStored() {
            try (Store other = Store.open(graph.open(), new StoreOptions())) {
                check(other, "in the store");
            }
        }

        private void check(Store opened, String where) {
            for (int i = 0; i < kinds.size(); i++) {
                Kind kind = kinds.get(i);
                List<String> expected = RandomOperations.show(kind, copies.get(i));
                List<String> found = RandomOperations.show(kind, collections(opened)[i]);
                String last = String.join(", ", history.subList(Math.max(0, history.size() - 30), history.size()));
                assertEquals(expected, found, () -> kind + " " + where + " after " + last);
            }
        }
    }
}
