package cedrat.oracle.state;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.TreeMap;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.LongRange;
import org.junit.jupiter.api.Test;

/// Open transactions, page by page.
class OpenTransactionsTest {
    private static final int PAGE_SHIFT = 2;

    private static Transactions transactions() {
        return new Transactions(1, new Transactions.Spilling(new MemoryPages(), Long.MAX_VALUE, PAGE_SHIFT));
    }

    /// Any pages together visit what is open, once, in ascending order, with its session.
    @Property(tries = 200)
    void pagesVisitAllOpen(@ForAll @LongRange(min = 1) long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        Transactions transactions = transactions();
        TreeMap<Long, Integer> open = new TreeMap<>();
        for (long start = 1; start < 200; start += random.nextInt(1, 12)) {
            int session = random.nextInt(1, 5);
            transactions.begin(start, session, 1);
            open.put(start, session);
        }
        for (long start : new ArrayList<>(open.keySet())) {
            switch (random.nextInt(4)) {
                case 0 -> {
                    transactions.end(start);
                    open.remove(start);
                }
                case 1 -> {
                    transactions.decide(start, start + 1000);
                    open.remove(start);
                }
                case 2 -> transactions.unclaim(start);
                default -> {
                    // stays open
                }
            }
        }
        List<Long> starts = new ArrayList<>();
        List<Integer> sessions = new ArrayList<>();
        long from = random.nextInt(1, 3);
        long first = from;
        do {
            int countMax = random.nextInt(1, 5);
            int before = starts.size();
            from = transactions.forEachOpen(from, countMax, (start, state, session) -> {
                starts.add(start);
                sessions.add(session);
            });
            assertTrue(starts.size() - before <= countMax, "O6e");
        } while (from > 0);
        assertEquals(new ArrayList<>(open.tailMap(first).keySet()), starts);
        assertEquals(new ArrayList<>(open.tailMap(first).values()), sessions);
    }

    /// Between two open transactions there may be millions of ended ones: a page passes few of them (O6e).
    @Test
    void workOfAPageIsBounded() {
        Transactions transactions = transactions();
        long last = 1 << 16;
        for (long start = 1; start <= last; start++) {
            transactions.begin(start, 1, 1);
        }
        for (long start = 2; start < last; start++) {
            transactions.end(start);
        }
        List<Long> starts = new ArrayList<>();
        long from = 1;
        int pages = 0;
        while (from > 0) {
            long next = transactions.forEachOpen(from, 10, (start, state, session) -> starts.add(start));
            assertTrue(next == 0 || next - from <= 1 << 14, "from " + from + " to " + next);
            from = next;
            pages++;
        }
        assertEquals(List.of(1L, last), starts);
        assertTrue(pages > 4);
        assertEquals(0, transactions.forEachOpen(last + 1, 10, (start, state, session) -> starts.add(start)));
        assertEquals(0, transactions().forEachOpen(1, 10, (start, state, session) -> starts.add(start)));
        assertEquals(2, starts.size());
    }
}
