package cedrat.persist.woven.record;

import static org.junit.jupiter.api.Assertions.assertEquals;

import cedrat.persist.MemoryGraph;
import cedrat.persist.Store;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// J19: transactions that begin near the end of the stack, and end there.
@Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class StackEndTest {
    private static final long STACK_BYTES = 256 << 10;
    /// Calls before the last possible one at which transactions begin, one after the other.
    private static final int DEPTHS = 300;

    private static final class Box {
        int x;
        int y;
        final List<Integer> list = new ArrayList<>(List.of(0));
        final Map<String, Integer> map = new HashMap<>(Map.of("key", 0));

        void add(int number) {
            x += number;
            y += 2 * number;
            list.set(0, list.get(0) + number);
            map.merge("key", number, Integer::sum);
        }

        String text() {
            return x + " " + y + " " + list + " " + map;
        }
    }

    private static int endless(int depth) {
        return endless(depth + 1) + 1;
    }

    private static void deep(int depth, Runnable work) {
        if (depth == 0) {
            work.run();
        } else {
            deep(depth - 1, work);
        }
    }

    /// Returns the number of calls for which the stack suffices.
    private static int depthMax() {
        int possible = 0;
        int tooMany = 1 << 20;
        while (possible + 1 < tooMany) {
            int depth = (possible + tooMany) / 2;
            try {
                deep(depth, () -> {});
                possible = depth;
            } catch (StackOverflowError e) {
                tooMany = depth;
            }
        }
        return possible;
    }

    /// Has a transaction change the box and end the stack, at each depth; the box is as before each time.
    private static void sweep(Box box, List<String> problems) {
        String before = Transaction.call(box::text);
        int max = depthMax();
        for (int depth = max - DEPTHS; depth <= max; depth++) {
            try {
                deep(
                        depth,
                        () -> Transaction.run(() -> {
                            box.add(1);
                            endless(0);
                        }));
            } catch (StackOverflowError e) {
                // as planned
            }
            String after = Transaction.call(box::text);
            if (!after.equals(before)) {
                problems.add("at " + depth + " of " + max + ": " + after);
                return;
            }
        }
    }

    private static void inThread(Runnable work, long stackBytes) throws InterruptedException {
        Thread thread = new Thread(null, work, "at the end of the stack", stackBytes);
        thread.setDaemon(true);
        thread.start();
        thread.join();
    }

    /// Classes are loaded, and calls linked, before the stack ends.
    private static void warmUp(Box box) {
        for (int i = 0; i < 100; i++) {
            try (Transaction transaction = Transaction.begin()) {
                box.add(1);
                transaction.rollback();
            }
        }
    }

    @Test
    void stackOverflowRollsBackAndUnlocks() throws InterruptedException {
        try (Store store = Store.open(new MemoryGraph().open(), new StoreOptions())) {
            Box box = store.root("box", Box.class, Box::new);
            warmUp(box);
            List<String> problems = new ArrayList<>();
            for (int round = 0; round < 5; round++) {
                inThread(() -> sweep(box, problems), STACK_BYTES);
                assertEquals(List.of(), problems, "J19");
                // J19a: it would wait without end for a lock that is not released.
                inThread(() -> Transaction.run(() -> box.add(1)), 0);
                assertEquals(round + 1, Transaction.<Integer, RuntimeException>call(() -> box.x), "J19a");
            }
        }
    }

    /// Reads an object that is not loaded yet at each depth.
    private static void load(Box[] boxes) {
        int max = depthMax();
        for (int i = 0; i < DEPTHS; i++) {
            Box[] one = {boxes[i]};
            try {
                deep(max - i, () -> one[0].list.get(0));
            } catch (StackOverflowError e) {
                // as planned
            }
        }
    }

    /// Collects garbage at each depth.
    private static void collect(Store store) {
        int max = depthMax();
        for (int i = 0; i < DEPTHS; i++) {
            try {
                deep(max - i, store::collect);
            } catch (StackOverflowError e) {
                // as planned
            }
        }
    }

    /// J19c: another thread loads, and collects.
    @Test
    void stackOverflowEndsCollection() throws InterruptedException {
        MemoryGraph graph = new MemoryGraph();
        try (Store store = Store.open(graph.open(), new StoreOptions())) {
            store.root("boxes", Box[].class, () -> Stream.generate(Box::new)
                    .limit(8)
                    .toArray(Box[]::new));
        }
        try (Store store = Store.open(graph.open(), new StoreOptions())) {
            Box[] all = store.root("boxes", Box[].class);
            for (Box box : all) {
                inThread(() -> collect(store), STACK_BYTES);
                inThread(() -> assertEquals(0, box.list.get(0)), 0);
                assertEquals(0, store.collect(), "J19c");
            }
        }
    }

    /// J19b: another thread loads, and a garbage collection waits for all loads.
    @Test
    void stackOverflowEndsLoad() throws InterruptedException {
        MemoryGraph graph = new MemoryGraph();
        try (Store store = Store.open(graph.open(), new StoreOptions())) {
            store.root("boxes", Box[].class, () -> Stream.generate(Box::new)
                    .limit(10 * DEPTHS)
                    .toArray(Box[]::new));
        }
        try (Store store = Store.open(graph.open(), new StoreOptions())) {
            Box[] all = store.root("boxes", Box[].class);
            for (int round = 0; round < 8; round++) {
                Box[] boxes = Arrays.copyOfRange(all, round * DEPTHS, (round + 1) * DEPTHS);
                int index = round;
                inThread(() -> load(boxes), STACK_BYTES);
                inThread(() -> assertEquals(0, all[9 * DEPTHS + index].list.get(0)), 0);
                assertEquals(0, store.collect(), "J19b");
            }
        }
    }
}
