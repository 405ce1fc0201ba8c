package cedrat.persist.killed;

import cedrat.persist.Transaction;
import java.util.AbstractMap;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/// Object whose content a thread removes from the store, holds while only it refers to it, and puts back: after a
/// crash the content is there as a whole, or not at all.
///
/// - J4   What is found by the hash of an object's identity is found after a restart too.
/// - J8   What the program holds is not collected, whether a name leads to it or not.
final class Drawer {
    private static final int SHEETS = 20;

    /// One of those that lie on each other.
    private static final class Sheet {
        final int number;
        final Sheet below;

        Sheet(int number, Sheet below) {
            this.number = number;
            this.below = below;
        }
    }

    /// Content that is removed as a whole.
    static final class Content {
        private final Sheet top;
        /// The number of each sheet, by the hash that it has from `Object`.
        private final Map<Sheet, Integer> numbers;

        private Content(Map<Sheet, Integer> numbers) {
            this.numbers = numbers;
            Sheet made = null;
            for (int number = 1; number <= SHEETS; number++) {
                made = new Sheet(number, made);
                numbers.put(made, number);
            }
            top = made;
        }

        private void check() {
            int number = SHEETS;
            for (Sheet sheet = top; sheet != null; sheet = sheet.below) {
                Integer found = numbers.get(sheet);
                if (sheet.number != number || found == null || found != number) {
                    throw new AssertionError(
                            "sheet " + number + " has number " + sheet.number + ", and " + found + " is found for it");
                }
                number--;
            }
            if (number != 0) {
                throw new AssertionError(number + " sheets are missing");
            }
        }
    }

    private Content content;

    /// Fills it, if nothing is in it; else compares what is.
    void open(Fault fault) {
        Transaction.run(() -> {
            if (content == null) {
                content = new Content(fault == Fault.RAW_TABLES ? new RawTable<>() : new HashMap<>());
            }
            content.check();
        });
    }

    /// Takes the content out, durably, and returns it.
    Content take() {
        return Transaction.call(() -> {
            Content taken = content;
            content = null;
            return taken;
        });
    }

    /// Puts back what was taken out.
    void put(Content taken) {
        Transaction.run(() -> {
            content = taken;
            content.check();
        });
    }

    /// A hash table that is stored as it lies in memory, as no store may store one whose hashes are those of
    /// identities: with [Fault#RAW_TABLES].
    private static final class RawTable<K, V> extends AbstractMap<K, V> {
        private final Object[] table = new Object[8 * SHEETS];

        /// The place of a key, or of what is free for it.
        private int place(Object key) {
            int place = 2 * Integer.remainderUnsigned(key.hashCode() * 0x9e3779b9, table.length / 2);
            while (table[place] != null && table[place] != key) {
                place = (place + 2) % table.length;
            }
            return place;
        }

        @Override
        public V put(K key, V value) {
            int place = place(key);
            table[place] = key;
            table[place + 1] = value;
            return null;
        }

        @Override
        @SuppressWarnings("unchecked")
        public V get(Object key) {
            return (V) table[place(key) + 1];
        }

        @Override
        public Set<Entry<K, V>> entrySet() {
            throw new UnsupportedOperationException("it is not called");
        }
    }
}
