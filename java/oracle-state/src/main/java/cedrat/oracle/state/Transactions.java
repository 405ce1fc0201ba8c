package cedrat.oracle.state;

import java.util.ArrayDeque;

/// What became of each transaction, by its start timestamp: open, committed, aborted, or nothing that anybody
/// needs any more (ReTSO §3.1: the list of uncommitted start timestamps, and the half-aborted list).
///
/// Timestamps are given out in ascending order, so what is known lies in pages of neighbours: looking at a
/// transaction is looking into an array. A page in which nothing is left is used again.
///
/// - T1  What is committed or aborted stays so until it is told that nobody will ask again.
/// - T2  [#oldestOpen] is the least start timestamp of all that are open.
///
/// For one thread at a time.
final class Transactions {
    /// What is kept of a timestamp is one number: 0 for nothing, below 0 for an open transaction, above 0 for
    /// the commit timestamp, or [#ABORTED].
    static final long NOTHING = 0;
    static final long ABORTED = Long.MAX_VALUE;

    private static final int PAGE_SHIFT = 12;
    private static final int PAGE_SIZE = 1 << PAGE_SHIFT;

    /// How much is looked at for one part: a page of timestamps counts as much as so many pages that are not
    /// there.
    private static final int PART_STEPS_MAX = 1 << 11;

    private static final int PAGE_STEPS = 1 << 8;

    /// Pages that are kept for later.
    private static final int SPARE_PAGES = 64;

    private static final class Page {
        final long[] states = new long[PAGE_SIZE];
        final int[] sessions = new int[PAGE_SIZE];
        /// Of decided transactions: the newest timestamp when their session was over, 0 before. Made when the
        /// first such session is over.
        long[] leftAt;
        int open;
        int decided;
    }

    private final ArrayDeque<Page> spare = new ArrayDeque<>();
    /// A ring of pages by their numbers, from `firstPage` on; `null` where nothing is left.
    private Page[] pages = new Page[16];
    private long firstPage;
    private long endPage;

    private long oldestOpen;
    private long open;
    private long aborted;
    private long committed;

    /// Knows nothing of timestamps below `from`.
    Transactions(long from) {
        firstPage = from >> PAGE_SHIFT;
        endPage = firstPage;
        oldestOpen = from;
    }

    /// What is kept of a timestamp.
    long state(long timestamp) {
        Page page = page(timestamp);
        return page == null ? NOTHING : page.states[slot(timestamp)];
    }

    static boolean isOpen(long state) {
        return state < 0;
    }

    /// The position in the conflict map that was next when an open transaction began.
    static long positionAtStart(long state) {
        return -state;
    }

    int session(long start) {
        return page(start).sessions[slot(start)];
    }

    /// A transaction is another session's from now on.
    void adopt(long start, int session) {
        Page page = page(start);
        page.sessions[slot(start)] = session;
        if (page.leftAt != null) {
            page.leftAt[slot(start)] = 0;
        }
    }

    /// The session of a decided transaction is over; `newest` is the newest timestamp.
    void leave(long start, long newest) {
        Page page = page(start);
        if (page.leftAt == null) {
            page.leftAt = new long[PAGE_SIZE];
        }
        page.leftAt[slot(start)] = newest;
    }

    /// The newest timestamp when the session of a decided transaction was over; 0 if it is not, or nobody
    /// knows.
    long leftAt(long start) {
        Page page = page(start);
        return page == null || page.leftAt == null ? 0 : page.leftAt[slot(start)];
    }

    /// A transaction begins. `start` is above all before it.
    void begin(long start, int session, long position) {
        Page page = make(start);
        int slot = slot(start);
        page.states[slot] = -position;
        page.sessions[slot] = session;
        page.open++;
        if (open++ == 0) {
            oldestOpen = start;
        }
    }

    /// What was kept of a transaction, put back ([#forEach]) where nothing is: in any order, and also after
    /// transactions that began later. Of a decided one, `state` is the outcome.
    void restore(long start, long state) {
        Page page = make(start);
        page.states[slot(start)] = state;
        if (!isOpen(state)) {
            page.decided++;
            count(state, 1);
            return;
        }
        page.sessions[slot(start)] = StatusOracle.NO_SESSION;
        page.open++;
        if (open++ == 0 || start < oldestOpen) {
            oldestOpen = start;
        }
    }

    /// An open transaction is decided: a commit timestamp, or [#ABORTED].
    void decide(long start, long outcome) {
        Page page = page(start);
        page.states[slot(start)] = outcome;
        page.decided++;
        count(outcome, 1);
        close(page, start);
    }

    /// An open transaction ends without an outcome that anybody could ask for.
    void end(long start) {
        Page page = page(start);
        page.states[slot(start)] = NOTHING;
        close(page, start);
        drop(page, start);
    }

    /// Nobody will ask for a decided transaction any more.
    void forget(long start) {
        Page page = page(start);
        count(page.states[slot(start)], -1);
        page.states[slot(start)] = NOTHING;
        page.decided--;
        drop(page, start);
    }

    /// The least start timestamp of all that are open; `otherwise` if none is.
    long oldestOpen(long otherwise) {
        return open == 0 ? otherwise : oldestOpen;
    }

    long open() {
        return open;
    }

    long aborted() {
        return aborted;
    }

    long committed() {
        return committed;
    }

    /// What [#forEach] is told of.
    interface Visitor {
        void visit(long timestamp, long state, int session);
    }

    /// All of which something is kept, in ascending order. The visitor may decide, end and forget what it is
    /// told of.
    void forEach(Visitor visitor) {
        for (long number = firstPage; number < endPage; number++) {
            Page page = pages[ringSlot(number)];
            for (int slot = 0; page != null && slot < PAGE_SIZE; slot++) {
                if (page.states[slot] != NOTHING) {
                    visitor.visit((number << PAGE_SHIFT) + slot, page.states[slot], page.sessions[slot]);
                    page = pages[ringSlot(number)];
                }
            }
        }
    }

    /// The same in parts: those from `from` up to `upTo`, at most `countMax`. Returns the timestamp from
    /// which to go on, `upTo + 1` after the last. A part is bounded also in how much is looked at, so it may
    /// tell of nothing. The visitor may forget what it is told of.
    long forEach(long from, long upTo, int countMax, Visitor visitor) {
        long timestamp = Math.max(from, firstPage << PAGE_SHIFT);
        int count = 0;
        for (int steps = 0; timestamp <= upTo && steps < PART_STEPS_MAX; ) {
            Page page = page(timestamp);
            steps += page == null ? 1 : PAGE_STEPS;
            long pageEnd = Math.min(upTo, timestamp | PAGE_SIZE - 1) + 1;
            for (; page != null && timestamp < pageEnd; timestamp++) {
                long state = page.states[slot(timestamp)];
                if (state == NOTHING) {
                    continue;
                }
                if (count++ == countMax) {
                    return timestamp;
                }
                visitor.visit(timestamp, state, page.sessions[slot(timestamp)]);
            }
            timestamp = pageEnd;
        }
        return Math.min(timestamp, upTo + 1);
    }

    /// The memory it takes, about.
    long bytes() {
        long inUse = 0;
        long left = 0;
        for (Page page : pages) {
            inUse += page == null ? 0 : 1;
            left += page == null || page.leftAt == null ? 0 : 1;
        }
        long references = pages.length * (long) Long.BYTES;
        return references
                + (inUse + spare.size()) * PAGE_SIZE * (Long.BYTES + Integer.BYTES)
                + left * PAGE_SIZE * Long.BYTES;
    }

    private void count(long outcome, int change) {
        if (outcome == ABORTED) {
            aborted += change;
        } else {
            committed += change;
        }
    }

    private void close(Page page, long start) {
        page.open--;
        open--;
        if (start == oldestOpen && open > 0) {
            oldestOpen = nextOpen(start);
        }
    }

    /// The first open one behind `start`; there is one.
    private long nextOpen(long start) {
        long number = start >> PAGE_SHIFT;
        int slot = slot(start) + 1;
        while (true) {
            Page page = pages[ringSlot(number)];
            if (page != null && page.open > 0) {
                for (; slot < PAGE_SIZE; slot++) {
                    if (page.states[slot] < 0) {
                        return (number << PAGE_SHIFT) + slot;
                    }
                }
            }
            number++;
            slot = 0;
        }
    }

    private void drop(Page page, long timestamp) {
        long number = timestamp >> PAGE_SHIFT;
        // The last page is still being filled.
        if (page.open > 0 || page.decided > 0 || number + 1 == endPage) {
            return;
        }
        pages[ringSlot(number)] = null;
        page.leftAt = null;
        if (spare.size() < SPARE_PAGES) {
            spare.push(page);
        }
        while (firstPage + 1 < endPage && pages[ringSlot(firstPage)] == null) {
            firstPage++;
        }
    }

    private Page page(long timestamp) {
        long number = timestamp >> PAGE_SHIFT;
        return number >= firstPage && number < endPage ? pages[ringSlot(number)] : null;
    }

    private Page make(long timestamp) {
        long number = timestamp >> PAGE_SHIFT;
        if (firstPage == endPage) {
            firstPage = number; // the first of all
            endPage = number;
        }
        if (number >= endPage) {
            grow(firstPage, number + 1);
        } else if (number < firstPage) {
            grow(number, endPage);
        }
        int at = ringSlot(number);
        if (pages[at] == null) {
            pages[at] = spare.isEmpty() ? new Page() : spare.pop();
        }
        return pages[at];
    }

    private void grow(long first, long end) {
        long before = endPage;
        if (end - first > pages.length) {
            Page[] larger = new Page[(int) Math.max(2L * pages.length, Long.highestOneBit(end - first) << 1)];
            for (long number = firstPage; number < endPage; number++) {
                larger[(int) (number & larger.length - 1)] = pages[ringSlot(number)];
            }
            pages = larger;
        }
        endPage = end;
        if (first < firstPage) {
            firstPage = first;
            return;
        }
        // What was the last page may have nothing left.
        if (before > firstPage) {
            Page last = pages[ringSlot(before - 1)];
            if (last != null) {
                drop(last, before - 1 << PAGE_SHIFT);
            }
        }
        while (firstPage + 1 < endPage && pages[ringSlot(firstPage)] == null) {
            firstPage++;
        }
    }

    private int ringSlot(long number) {
        return (int) number & pages.length - 1;
    }

    private static int slot(long timestamp) {
        return (int) timestamp & PAGE_SIZE - 1;
    }
}
