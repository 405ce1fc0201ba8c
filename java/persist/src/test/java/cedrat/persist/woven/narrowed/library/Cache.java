package cedrat.persist.woven.narrowed.library;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;

/// An object that changes itself.
public final class Cache {
    private final Map<String, Integer> map = new HashMap<>();
    private int puts;

    /// Adds an entry.
    public void put(String key, int value) {
        puts++;
        map.put(key, value);
    }

    @Override
    public String toString() {
        return puts + " " + map;
    }

    /// A list with a field of its own.
    public static final class CountingList extends ArrayList<String> {
        private static final long serialVersionUID = 1;

        private int adds;

        @Override
        public boolean add(String text) {
            adds++;
            return super.add(text);
        }

        /// Returns the number of calls of [#add].
        public int adds() {
            return adds;
        }
    }
}
