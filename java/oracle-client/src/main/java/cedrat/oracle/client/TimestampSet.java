package cedrat.oracle.client;

/// A set of timestamps, which are above 0, without an object for each. For one thread at a time.
final class TimestampSet {
    private static final int FIRST = 64;
    private static final long SPREAD = 0x9e37_79b9_7f4a_7c15L;

    /// Open addressing: 0 is a free place, and no place between a number's home and the number is free.
    private long[] places = new long[FIRST];
    private int size;

    int size() {
        return size;
    }

    void add(long timestamp) {
        if (2 * (size + 1) > places.length) {
            grow();
        }
        int at = home(timestamp);
        while (places[at] != 0) {
            if (places[at] == timestamp) {
                return;
            }
            at = next(at);
        }
        places[at] = timestamp;
        size++;
    }

    void remove(long timestamp) {
        int at = home(timestamp);
        while (places[at] != timestamp) {
            if (places[at] == 0) {
                return;
            }
            at = next(at);
        }
        size--;
        // What follows moves up, so that no gap parts it from its home.
        int free = at;
        for (int later = next(at); places[later] != 0; later = next(later)) {
            int home = home(places[later]);
            boolean mayMove = free <= later ? home <= free || home > later : home <= free && home > later;
            if (mayMove) {
                places[free] = places[later];
                free = later;
            }
        }
        places[free] = 0;
    }

    boolean contains(long timestamp) {
        for (int at = home(timestamp); places[at] != 0; at = next(at)) {
            if (places[at] == timestamp) {
                return true;
            }
        }
        return false;
    }

    /// All, in no order.
    long[] toArray() {
        long[] all = new long[size];
        int count = 0;
        for (long timestamp : places) {
            if (timestamp != 0) {
                all[count++] = timestamp;
            }
        }
        return all;
    }

    private void grow() {
        long[] before = places;
        places = new long[2 * before.length];
        size = 0;
        for (long timestamp : before) {
            if (timestamp != 0) {
                add(timestamp);
            }
        }
    }

    private int home(long timestamp) {
        return (int) (timestamp * SPREAD >>> 40) & places.length - 1;
    }

    private int next(int at) {
        return at + 1 & places.length - 1;
    }
}
