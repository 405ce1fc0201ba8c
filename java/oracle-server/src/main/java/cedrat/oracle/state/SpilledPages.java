package cedrat.oracle.state;

import java.util.ArrayDeque;
import java.util.TreeMap;

/// Pages of outcomes that lie in a store, as there is no room for them in memory. They have no open
/// transaction.
///
/// ```text
///             put                       page
/// (in memory) ───▶ Stored ◀──────────────────────────▶ Loaded
///                    │      others are loaded: stored      │
///                    │      anew if it has changed         │
///                    └──────────── take, drop ─────────────┴──▶ (gone)
/// ```
///
/// A few of them are in memory for those who ask for them. For one thread at a time.
final class SpilledPages {
    /// Largest number of spilled pages in memory.
    private static final int LOADED_MAX = 4;

    /// Approximate size of an entry without its page, including its node in the map.
    private static final int ENTRY_BYTES = 136;

    private static final class Entry {
        final long number;
        long place;
        int length;
        int decided;
        /// `null` if it is in the store alone.
        Page page;

        Entry(long number) {
            this.number = number;
        }
    }

    private final PageStore store;
    private final int pageSize;
    private final byte[] bytes;
    private final TreeMap<Long, Entry> entries = new TreeMap<>();
    /// The one that was loaded first is the first to go.
    private final ArrayDeque<Entry> loaded = new ArrayDeque<>();
    private final ArrayDeque<Page> spare = new ArrayDeque<>();
    private long storedBytes;
    private long reads;

    SpilledPages(PageStore store, int pageSize) {
        this.store = store;
        this.pageSize = pageSize;
        bytes = new byte[Page.writtenMax(pageSize)];
    }

    boolean isEmpty() {
        return entries.isEmpty();
    }

    /// Stores a page, which may then be used for something else.
    void put(long number, Page page) {
        Entry entry = new Entry(number);
        store(entry, page);
        entries.put(number, entry);
    }

    /// The page with this number; `null` if it is not here. It is in memory until others are asked for, and
    /// may be changed.
    Page page(long number) {
        Entry entry = entries.get(number);
        if (entry == null) {
            return null;
        }
        if (entry.page == null) {
            if (loaded.size() == LOADED_MAX) {
                unload(loaded.remove());
            }
            entry.page = read(entry);
            loaded.add(entry);
        }
        return entry.page;
    }

    /// The page with this number, which is stored empty if it is not here. It may be changed, as above.
    Page make(long number) {
        if (!entries.containsKey(number)) {
            put(number, new Page(pageSize));
        }
        return page(number);
    }

    /// Returns the page with this number, which is here no longer; `null` if it was not.
    Page take(long number) {
        Page page = page(number);
        if (page != null) {
            forget(number);
        }
        return page;
    }

    /// Nothing is left in the page with this number, which is loaded.
    void drop(long number) {
        Page page = entries.get(number).page;
        forget(number);
        page.clear();
        spare.add(page);
    }

    private void forget(long number) {
        Entry entry = entries.remove(number);
        loaded.remove(entry);
        free(entry);
    }

    /// The first from this number on; `otherwise` if there is none.
    long from(long number, long otherwise) {
        Long next = entries.ceilingKey(number);
        return next == null ? otherwise : next;
    }

    /// None is here any more.
    void clear() {
        entries.values().forEach(this::free);
        entries.clear();
        loaded.clear();
    }

    // ---- the store --------------------------------------------------------------------------------------------------

    private Page read(Entry entry) {
        reads++;
        store.get(entry.place, bytes, entry.length);
        Page page = spare.isEmpty() ? new Page(pageSize) : spare.pop();
        page.read(entry.number, bytes);
        return page;
    }

    private void unload(Entry entry) {
        if (entry.page.isChanged) {
            free(entry);
            store(entry, entry.page);
        }
        entry.page.clear();
        spare.add(entry.page);
        entry.page = null;
    }

    private void store(Entry entry, Page page) {
        entry.length = page.write(entry.number, bytes);
        entry.place = store.put(bytes, entry.length);
        entry.decided = page.decided;
        storedBytes += entry.length;
    }

    private void free(Entry entry) {
        store.free(entry.place, entry.length);
        storedBytes -= entry.length;
    }

    // ---- figures ----------------------------------------------------------------------------------------------------

    /// Returns the number of transactions in the spilled pages.
    long outcomes() {
        return entries.values().stream()
                .mapToLong(entry -> entry.page == null ? entry.decided : entry.page.decided)
                .sum();
    }

    /// Returns the bytes of the spilled pages that are in the store.
    long storedBytes() {
        return storedBytes;
    }

    /// How often one was read.
    long reads() {
        return reads;
    }

    /// The memory it takes, about.
    long bytes() {
        return bytes.length
                + entries.size() * (long) ENTRY_BYTES
                + (loaded.size() + spare.size()) * Page.bytesMax(pageSize);
    }
}
