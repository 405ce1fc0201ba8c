package cedrat.persist.killed;

import cedrat.persist.Heap;
import cedrat.persist.Records;
import cedrat.persist.RwLock;
import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicLong;

/// A process that moves money between fields of objects, records in pages and words of a heap, until it is
/// killed: `DIRECTORY SEED THREADS PHASE BEGINS`, of which the last two are [Phase#APPEND], and of no
/// interest.
///
/// Each transfer counts itself, in the place that it takes from. The process says `found 0 TRANSFERS` of what
/// is there when it begins, if nothing is lost of the money; then it goes on, and says `ack 0 TRANSFERS` of
/// how many are durable at least. When it begins a transfer it says `begin`, and behind it `end`.
public final class Transfers {
    private static final int PLACES = 4;
    private static final long TOTAL = 1_000_000;
    private static final int ROLLED_BACK_PERCENT = 10;

    private static final class Purse {
        long coins;
        long transfers;
    }

    private final Records records;
    private final Heap heap;
    private final Purse[] purses;
    private final long[] numbers;
    private final long words;

    private Transfers(Store persistence) {
        records = persistence.records("records");
        heap = persistence.heap("heap", 1 << 20);
        Transaction.run(() -> {
            if (persistence.root("purses", Object.class) == null) {
                Purse[] fresh = new Purse[PLACES];
                for (int place = 0; place < PLACES; place++) {
                    fresh[place] = new Purse();
                    records.insert(bytes(0, 0));
                }
                fresh[0].coins = TOTAL;
                persistence.setRoot("purses", fresh);
                heap.setRoot("words", heap.allocate(2L * Long.BYTES * PLACES));
            }
        });
        purses = persistence.root("purses", Object.class);
        numbers = Transaction.call(() -> records.numbers());
        words = Transaction.call(() -> heap.root("words"));
    }

    /// Runs.
    public static void main(String[] arguments) throws Exception {
        long seed = Long.parseLong(arguments[1]);
        try (Store persistence = Store.open(Path.of(arguments[0]), new StoreOptions())) {
            Transfers transfers = new Transfers(persistence);
            long found = transfers.audit();
            say("found 0 " + found);
            AtomicLong durable = new AtomicLong(found);
            Thread[] running = new Thread[Integer.parseInt(arguments[2])];
            for (int thread = 0; thread < running.length; thread++) {
                SplittableRandom random = new SplittableRandom(seed + found * 31 + thread);
                running[thread] = Thread.ofPlatform().start(() -> transfers.run(random, durable));
            }
            for (Thread thread : running) {
                thread.join();
            }
        }
    }

    /// Counts all money, and all transfers.
    private long audit() {
        return Transaction.call(() -> {
            long coins = 0;
            long transfers = 0;
            for (int place = 0; place < 3 * PLACES; place++) {
                long[] there = read(place);
                coins += there[0];
                transfers += there[1];
            }
            if (coins != TOTAL) {
                throw new AssertionError("there are " + coins + " coins after " + transfers + " transfers");
            }
            return transfers;
        });
    }

    private void run(SplittableRandom random, AtomicLong durable) {
        while (true) {
            int from = random.nextInt(3 * PLACES);
            int to = random.nextInt(3 * PLACES);
            int percent = random.nextInt(101);
            boolean isRolledBack = random.nextInt(100) < ROLLED_BACK_PERCENT;
            say("begin");
            Transaction.run(transaction -> {
                if (isRolledBack) {
                    // A nested one that is taken back leaves nothing of itself.
                    Transaction.run(nested -> {
                        transfer(to, from, percent);
                        nested.rollback();
                    });
                }
                transfer(from, to, percent);
            });
            say("end");
            synchronized (durable) {
                say("ack 0 " + durable.incrementAndGet());
            }
        }
    }

    private void transfer(int from, int to, int percent) {
        long[] there = read(from);
        long sum = there[0] * percent / 100;
        write(from, there[0] - sum, there[1] + 1);
        long[] other = read(to);
        write(to, other[0] + sum, other[1]);
    }

    /// Coins and transfers of a place: the first are objects, then come records, then words.
    private long[] read(int place) {
        int index = place % PLACES;
        return switch (place / PLACES) {
            case 0 -> {
                // Records and words are locked by being read; fields are not.
                RwLock.acquireWrite(purses[index]);
                yield new long[] {purses[index].coins, purses[index].transfers};
            }
            case 1 -> {
                ByteBuffer record = ByteBuffer.wrap(records.read(numbers[index]));
                yield new long[] {record.getLong(), record.getLong()};
            }
            default -> new long[] {heap.read(word(index)), heap.read(word(index) + Long.BYTES)};
        };
    }

    private void write(int place, long coins, long transfers) {
        int index = place % PLACES;
        switch (place / PLACES) {
            case 0 -> {
                purses[index].coins = coins;
                purses[index].transfers = transfers;
            }
            case 1 -> records.update(numbers[index], bytes(coins, transfers));
            default -> {
                heap.write(word(index), coins);
                heap.write(word(index) + Long.BYTES, transfers);
            }
        }
    }

    private long word(int index) {
        return words + 2L * Long.BYTES * index;
    }

    private static byte[] bytes(long coins, long transfers) {
        return ByteBuffer.allocate(2 * Long.BYTES)
                .putLong(coins)
                .putLong(transfers)
                .array();
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
