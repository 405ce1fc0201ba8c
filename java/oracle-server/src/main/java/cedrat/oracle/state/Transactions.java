package cedrat.oracle.state;

import java.util.ArrayDeque;
import java.util.Objects;

/// State of each transaction, by its start timestamp: open, committed, aborted, or nothing that is still
/// needed (ReTSO §3.1: the list of uncommitted start timestamps, and the half-aborted list).
///
/// Timestamps are given out in ascending order, so states lie in pages of neighbours: a lookup of a
/// transaction is an access to an array. A page that has become empty is used again.
///
/// When there are too many pages, the oldest without open transactions are spilled to a store, and read again
/// when one of their outcomes is requested (O2).
///
/// - T1  A committed or aborted transaction stays so until [#forget].
/// - T2  [#oldestOpen] is the least start timestamp of all that are open.
/// - T3  The answer about a transaction does not depend on where its page lies.
///
/// The timestamps of a restored oracle continue far above those of its backup. Pages below such a gap are
/// spilled as well, so that neither memory nor work grows with the gap.
///
/// For one thread at a time.
final class Transactions {
    /// State of a timestamp without a transaction. A state is one number: 0 for nothing, below 0 for an open
    /// transaction, above 0 for the commit timestamp, or [#aborted].
    static final long NOTHING = 0;
    /// State of an aborted transaction whose reason is not known any more: logs and snapshots do not keep
    /// it. The states with known reasons, one for each, lie below this one and above any timestamp.
    static final long ABORTED = Long.MAX_VALUE;

    private static final AbortReason[] REASONS = AbortReason.values();

    /// A page has two to this power of timestamps, but in tests.
    static final int PAGE_SHIFT = 12;

    /// Limit of the work for one part: visiting a page of timestamps counts as much as passing this number of
    /// absent pages.
    private static final int PART_STEPS_MAX = 1 << 11;

    private static final int PAGE_STEPS = 1 << 8;

    /// Arrays are no longer: the ring has up to twice as many references as there are pages from the first to the last.
    private static final long RING_PAGES_MAX = 1L << 29;

    /// With more absent pages than this between two, the lower one is spilled.
    private static final long GAP_PAGES_MAX = 1L << 20;

    /// Pages that are kept for later.
    private static final int SPARE_PAGES = 4;

    /// Where pages are spilled to, and when.
    ///
    /// @param store keeps them
    /// @param bytesMax memory of all that is known of transactions, in bytes; more is taken only by pages with open
    ///     transactions, and by some pages that are in use
    /// @param pageShift a page has two to this power of timestamps
    record Spilling(PageStore store, long bytesMax, int pageShift) {
        /// Returns a new one that keeps all in memory.
        static Spilling never() {
            return new Spilling(new MemoryPages(), Long.MAX_VALUE, PAGE_SHIFT);
        }

        /// Spills when all pages take this many bytes of memory.
        static Spilling past(long bytesMax, PageStore store) {
            return new Spilling(Objects.requireNonNull(store), bytesMax, PAGE_SHIFT);
        }
    }

    private final Spilling spilling;
    private final int pageShift;
    private final int pageSize;
    private final SpilledPages spilled;
    private final ArrayDeque<Page> spare = new ArrayDeque<>();
    /// A ring of pages by their numbers, from `firstPage` on; `null` where nothing is left.
    private Page[] pages = new Page[16];
    private long firstPage;
    private long endPage;
    /// Number of pages in the ring.
    private int pageCount;
    /// Below it no page of the ring could be spilled when that was tried last.
    private long spillFrom;

    private long oldestOpen;
    private long open;
    private long aborted;
    private long committed;

    /// Knows nothing of timestamps below `from`. The store is empty.
    Transactions(long from, Spilling spilling) {
        this.spilling = spilling;
        pageShift = spilling.pageShift;
        pageSize = 1 << pageShift;
        spilled = new SpilledPages(spilling.store, pageSize);
        firstPage = from >> pageShift;
        endPage = firstPage;
        oldestOpen = from;
    }

    /// Returns the state of a timestamp.
    long state(long timestamp) {
        Page page = page(timestamp);
        return page == null ? NOTHING : page.states[slot(timestamp)];
    }

    static boolean isOpen(long state) {
        return state < 0;
    }

    /// Returns the state of a transaction that has aborted for this reason.
    static long aborted(AbortReason reason) {
        return ABORTED - 1 - reason.ordinal();
    }

    static boolean isAborted(long state) {
        return state >= ABORTED - REASONS.length;
    }

    /// Returns the reason of an abort; `null` if it is not known, or the state is no abort.
    static AbortReason reason(long state) {
        return isAborted(state) && state != ABORTED ? REASONS[(int) (ABORTED - 1 - state)] : null;
    }

    /// The position in the conflict map that was next when an open transaction began.
    static long positionAtStart(long state) {
        return -state;
    }

    /// The session of a transaction, claimed or not.
    int session(long start) {
        return claimed(page(start).sessions[slot(start)]);
    }

    private static int claimed(int session) {
        return session < 0 ? ~session : session;
    }

    /// Assigns a transaction to a session; it is claimed from now on.
    void adopt(long start, int session) {
        Page page = page(start);
        page.sessions[slot(start)] = session;
        page.isChanged = true;
    }

    /// Marks an open transaction as *unclaimed* until it is adopted: its client may not know of it.
    void unclaim(long start) {
        page(start).sessions[slot(start)] = ~session(start);
    }

    boolean isUnclaimed(long start) {
        return page(start).sessions[slot(start)] < 0;
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

    /// Restores the state of a transaction, as [#forEach] reported it, where there is none: in any order, and
    /// also after transactions that began later. Of a decided one, `state` is the outcome.
    ///
    /// @throws IllegalArgumentException if it began so far from the others that the ring of pages would take more
    ///     than half of the memory
    void restore(long start, long state) {
        Page page = makeRestored(start, isOpen(state));
        page.states[slot(start)] = state;
        page.sessions[slot(start)] = StatusOracle.NO_SESSION;
        if (!isOpen(state)) {
            page.decided++;
            count(state, 1);
            return;
        }
        page.open++;
        if (open++ == 0 || start < oldestOpen) {
            oldestOpen = start;
        }
    }

    private Page makeRestored(long start, boolean isOpen) {
        long number = start >> pageShift;
        if (!isOpen && firstPage != endPage && firstPage - number > GAP_PAGES_MAX) {
            Page page = spilled.make(number);
            page.isChanged = true;
            return page;
        }
        separate(number);
        checkDistance(start);
        return make(start);
    }

    /// Notes that transactions follow from `next` on.
    ///
    /// @throws IllegalArgumentException as [#restore]
    void continueAt(long next) {
        separate(next >> pageShift);
        if (next >> pageShift >= endPage) {
            checkDistance(next);
        }
    }

    /// Spills all pages, if this one is far above them, and none has an open transaction.
    private void separate(long next) {
        if (firstPage == endPage || next - endPage <= GAP_PAGES_MAX || open > 0) {
            return;
        }
        for (long number = firstPage; number < endPage; number++) {
            Page page = pages[ringSlot(number)];
            if (page == null) {
                continue;
            }
            if (page.decided > 0) {
                spilled.put(number, page);
            }
            remove(number, page);
        }
        firstPage = next;
        endPage = next;
    }

    private void checkDistance(long start) {
        long number = start >> pageShift;
        long span = firstPage == endPage ? 1 : Math.max(endPage, number + 1) - Math.min(firstPage, number);
        long most = Math.min(RING_PAGES_MAX, Runtime.getRuntime().maxMemory() / 2 / (2 * Long.BYTES));
        if (span > pages.length && span > most) {
            throw new IllegalArgumentException("transaction " + start + " began " + (span << pageShift)
                    + " timestamps from others, and memory has room for " + (most << pageShift));
        }
    }

    /// Decides an open transaction: `outcome` is a commit timestamp, or [#aborted].
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

    /// Forgets a decided transaction: its outcome will not be requested again.
    void forget(long start) {
        Page page = page(start);
        count(page.states[slot(start)], -1);
        page.states[slot(start)] = NOTHING;
        page.decided--;
        page.isChanged = true;
        drop(page, start);
    }

    /// The least start timestamp of all that are open; `otherwise` if none is.
    long oldestOpen(long otherwise) {
        return open == 0 ? otherwise : oldestOpen;
    }

    /// A timestamp below which nothing is known any more; that it is not the greatest such costs only memory.
    long oldest() {
        return Math.min(firstPage, spilled.from(0, Long.MAX_VALUE)) << pageShift;
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

    /// Receives the transactions of [#forEach].
    interface Visitor {
        void visit(long timestamp, long state, int session);
    }

    /// Visits the open transactions of a session, claimed or not, in ascending order. The visitor may decide the
    /// transaction that it receives. The work depends on the number of pages with open transactions, not on
    /// the number of outcomes.
    void forEachOpenOf(int session, Visitor visitor) {
        for (long number = oldestOpen >> pageShift; open > 0 && number < endPage; number++) {
            Page page = pages[ringSlot(number)];
            int left = page == null ? 0 : page.open;
            for (int slot = 0; left > 0; slot++) {
                long state = page.states[slot];
                if (!isOpen(state)) {
                    continue;
                }
                left--;
                if (claimed(page.sessions[slot]) == session) {
                    visitor.visit((number << pageShift) + slot, state, session);
                }
            }
        }
    }

    /// Visits the open transactions that began at `from` or later in parts, in ascending order, at most `countMax`.
    /// Returns the start timestamp from which to go on, 0 after the last. The work of a part is bounded too, so a
    /// part may be empty.
    long forEachOpen(long from, int countMax, Visitor visitor) {
        long timestamp = Math.max(from, oldestOpen);
        int count = 0;
        for (int steps = 0; open > 0 && timestamp >> pageShift < endPage; ) {
            if (steps >= PART_STEPS_MAX) {
                return timestamp;
            }
            Page page = pages[ringSlot(timestamp >> pageShift)];
            boolean hasOpen = page != null && page.open > 0;
            steps += hasOpen ? PAGE_STEPS : 1;
            long pageEnd = (timestamp | pageSize - 1) + 1;
            for (; hasOpen && timestamp < pageEnd; timestamp++) {
                long state = page.states[slot(timestamp)];
                if (!isOpen(state)) {
                    continue;
                }
                if (count++ == countMax) {
                    return timestamp;
                }
                visitor.visit(timestamp, state, claimed(page.sessions[slot(timestamp)]));
            }
            timestamp = pageEnd;
        }
        return 0;
    }

    /// Visits all known transactions in parts: those from `from` up to `upTo`, at most `countMax`. Returns the
    /// timestamp from which to go on, `upTo + 1` after the last. The work of a part is bounded too, so a part may
    /// be empty. The visitor may forget the transaction that it receives.
    long forEach(long from, long upTo, int countMax, Visitor visitor) {
        long timestamp = from;
        int count = 0;
        for (int steps = 0; timestamp <= upTo && steps < PART_STEPS_MAX; ) {
            long number = timestamp >> pageShift;
            long next = next(number);
            if (next > upTo >> pageShift) {
                return upTo + 1;
            }
            timestamp = number < next ? next << pageShift : timestamp;
            Page page = page(timestamp);
            steps += page == null ? 1 : PAGE_STEPS;
            long pageEnd = Math.min(upTo, timestamp | pageSize - 1) + 1;
            for (; page != null && timestamp < pageEnd; timestamp++) {
                long state = page.states[slot(timestamp)];
                if (state == NOTHING) {
                    continue;
                }
                if (count++ == countMax) {
                    return timestamp;
                }
                visitor.visit(timestamp, state, claimed(page.sessions[slot(timestamp)]));
            }
            timestamp = pageEnd;
        }
        return Math.min(timestamp, upTo + 1);
    }

    /// The memory it takes, about.
    long bytes() {
        long references = pages.length * (long) Long.BYTES;
        return references + (pageCount + spare.size()) * Page.bytesMax(pageSize) + spilled.bytes();
    }

    /// Returns the spilled pages.
    SpilledPages spilled() {
        return spilled;
    }

    /// Nothing is known any more, and nothing is left in the store.
    void clear() {
        spilled.clear();
    }

    /// The first page from this one on that may be there; the greatest number if none is.
    private long next(long number) {
        long inRing = number < endPage ? Math.max(number, firstPage) : Long.MAX_VALUE;
        return Math.min(inRing, spilled.from(number, Long.MAX_VALUE));
    }

    private void count(long outcome, int change) {
        if (isAborted(outcome)) {
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
        long number = start >> pageShift;
        int slot = slot(start) + 1;
        while (true) {
            Page page = pages[ringSlot(number)];
            if (page != null && page.open > 0) {
                for (; slot < pageSize; slot++) {
                    if (page.states[slot] < 0) {
                        return (number << pageShift) + slot;
                    }
                }
            }
            number++;
            slot = 0;
        }
    }

    private void drop(Page page, long timestamp) {
        long number = timestamp >> pageShift;
        // The last page is still being filled.
        if (page.open > 0 || page.decided > 0 || number + 1 == endPage) {
            return;
        }
        if (inRing(number) == null) {
            spilled.drop(number);
        } else {
            remove(number, page);
        }
    }

    /// Takes a page out of the ring, to be used again.
    private void remove(long number, Page page) {
        pages[ringSlot(number)] = null;
        pageCount--;
        page.clear();
        if (spare.size() < SPARE_PAGES) {
            spare.push(page);
        }
        while (firstPage + 1 < endPage && pages[ringSlot(firstPage)] == null) {
            firstPage++;
        }
    }

    private Page page(long timestamp) {
        long number = timestamp >> pageShift;
        Page page = inRing(number);
        return page != null || spilled.isEmpty() ? page : spilled.page(number);
    }

    private Page inRing(long number) {
        return number >= firstPage && number < endPage ? pages[ringSlot(number)] : null;
    }

    /// Spills the oldest page that can be spilled, except `but`, if memory is above its limit; and one more
    /// page if that is not enough, as after the end of open transactions. So the number of pages falls, and
    /// no request waits for many of them.
    private void spill(long but) {
        for (int count = 0; count < 2 && bytes() > spilling.bytesMax; count++) {
            long number = spillable(Math.max(spillFrom, firstPage), but);
            if (number == endPage) {
                number = spillable(firstPage, but);
            }
            spillFrom = number == endPage ? firstPage : number + 1;
            if (number < endPage) {
                Page page = pages[ringSlot(number)];
                spilled.put(number, page);
                remove(number, page);
            }
        }
    }

    private long spillable(long from, long but) {
        for (long number = from; number + 1 < endPage; number++) {
            Page page = pages[ringSlot(number)];
            if (page != null && page.open == 0 && number != but) {
                return number;
            }
        }
        return endPage;
    }

    private Page make(long timestamp) {
        long number = timestamp >> pageShift;
        separate(number);
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
            Page before = spilled.isEmpty() ? null : spilled.take(number);
            pages[at] = before != null ? before : spare.isEmpty() ? new Page(pageSize) : spare.pop();
            pageCount++;
            spill(number);
        }
        return pages[ringSlot(number)];
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
                drop(last, before - 1 << pageShift);
            }
        }
        while (firstPage + 1 < endPage && pages[ringSlot(firstPage)] == null) {
            firstPage++;
        }
    }

    private int ringSlot(long number) {
        return (int) number & pages.length - 1;
    }

    private int slot(long timestamp) {
        return (int) timestamp & pageSize - 1;
    }
}
