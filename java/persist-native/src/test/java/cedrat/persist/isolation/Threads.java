package cedrat.persist.isolation;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.persist.RwLock;
import cedrat.persist.Transaction;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicReference;

/// Threads whose transactions read and change the same lists, and what each of them has seen.
final class Threads {
    private static final int THREADS = 4;
    private static final int TRANSACTIONS = 300;
    private static final int LISTS = 8;
    private static final int ROLLED_BACK_PERCENT = 15;

    private Threads() {}

    /// Lists, of which every second is one of the JDK.
    static final class Lists {
        final List<Object> all = new ArrayList<>();

        Lists() {
            for (int i = 0; i < LISTS; i++) {
                all.add(i % 2 == 0 ? new Chain() : new ArrayList<Long>());
            }
        }
    }

    /// The newest first: a reader follows references, which may not be loaded.
    static final class Chain {
        Link newest;
    }

    static final class Link {
        final Link older;
        final long element;

        Link(Link older, long element) {
            this.older = older;
            this.element = element;
        }
    }

    static List<Long> elements(Object list) {
        if (list instanceof Chain chain) {
            List<Long> found = new ArrayList<>();
            for (Link link = chain.newest; link != null; link = link.older) {
                found.addFirst(link.element);
            }
            return found;
        }
        List<Long> found = new ArrayList<>();
        for (Object element : (List<?>) list) {
            found.add((Long) element);
        }
        return found;
    }

    @SuppressWarnings("unchecked")
    private static void append(Object list, long element) {
        if (list instanceof Chain chain) {
            chain.newest = new Link(chain.newest, element);
        } else {
            ((List<Long>) list).add(element);
        }
    }

    private static void lock(Object list, boolean toWrite) {
        if (toWrite) {
            RwLock.acquireWrite(list);
        } else {
            RwLock.acquireRead(list);
        }
    }

    private static void read(Lists lists, int index, ListHistory.Seen seen) {
        seen.read("list" + index, elements(lists.all.get(index)));
    }

    // ---- threads

    /// Transactions of a thread: each reads lists and appends to some.
    ///
    /// @param locks whether they acquire locks before they read
    private static void transact(
            Lists lists, boolean locks, int process, ListHistory history, SplittableRandom random) {
        for (int number = 0; number < TRANSACTIONS; number++) {
            long first = (process * (long) TRANSACTIONS + number) * LISTS;
            int[] indices = random.ints(1 + random.nextInt(4), 0, LISTS).toArray();
            boolean[] appends = new boolean[indices.length];
            for (int i = 0; i < appends.length; i++) {
                appends[i] = random.nextBoolean();
            }
            boolean isRolledBack = random.nextInt(100) < ROLLED_BACK_PERCENT;
            ListHistory.Seen seen = new ListHistory.Seen();
            history.begins(process);
            Transaction.run(transaction -> {
                seen.again();
                for (int i = 0; i < indices.length; i++) {
                    Object list = lists.all.get(indices[i]);
                    if (locks) {
                        lock(list, appends[i]);
                    }
                    read(lists, indices[i], seen);
                    if (appends[i]) {
                        append(list, first + i);
                        seen.append("list" + indices[i], first + i);
                    }
                }
                if (isRolledBack) {
                    transaction.rollback();
                }
            });
            if (isRolledBack) {
                history.failed(process, seen);
            } else {
                history.committed(process, seen);
            }
        }
    }

    /// Threads that do so.
    static ListHistory run(Lists lists, boolean locks) throws Throwable {
        ListHistory history = new ListHistory();
        long seed = Long.getLong("cedrat.seed", System.nanoTime());
        SplittableRandom random = new SplittableRandom(seed);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        List<Thread> threads = new ArrayList<>();
        for (int process = 0; process < THREADS; process++) {
            int number = process;
            SplittableRandom own = random.split();
            threads.add(Thread.ofPlatform()
                    .uncaughtExceptionHandler((thread, thrown) -> failure.compareAndSet(null, thrown))
                    .start(() -> transact(lists, locks, number, history, own)));
        }
        for (Thread thread : threads) {
            thread.join();
        }
        if (failure.get() != null) {
            throw new AssertionError("seed " + seed, failure.get());
        }
        System.out.println(history.committed() + " transactions committed (seed " + seed + ")");
        return history;
    }

    /// Records the final lists, which show the order of all appended elements.
    static void seeAll(Lists lists, ListHistory history) {
        ListHistory.Seen seen = new ListHistory.Seen();
        history.begins(THREADS);
        for (int index = 0; index < LISTS; index++) {
            read(lists, index, seen);
        }
        history.committed(THREADS, seen);
    }

    /// A planted fault: one reads without the lock, and sees a half of what another one does.
    static void readWithoutLock(Lists lists, String name) throws Exception {
        ListHistory history = new ListHistory();
        ListHistory.Seen reader = new ListHistory.Seen();
        history.begins(0);
        Transaction.run(() -> {
            reader.again();
            read(lists, 0, reader);
            runElsewhere(() -> {
                ListHistory.Seen writer = new ListHistory.Seen();
                history.begins(1);
                Transaction.run(() -> {
                    writer.again();
                    for (int index = 0; index < 2; index++) {
                        RwLock.acquireWrite(lists.all.get(index));
                        read(lists, index, writer);
                        append(lists.all.get(index), index + 1);
                        writer.append("list" + index, index + 1);
                    }
                });
                history.committed(1, writer);
            });
            read(lists, 1, reader);
        });
        history.committed(0, reader);
        assertEquals(List.of(1L), elements(lists.all.get(0)));
        seeAll(lists, history);
        history.write(name, "not-serializable", "not-strict-serializable");
    }

    private static void runElsewhere(Runnable work) {
        Thread thread = Thread.ofPlatform().start(work);
        try {
            thread.join();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }
}
