package cedrat.oracle.state;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/// Store of pages in memory. For one thread at a time.
final class MemoryPages implements PageStore {
    private final Map<Long, byte[]> pages = new HashMap<>();
    private long newest;

    MemoryPages() {}

    @Override
    public long put(byte[] bytes, int length) {
        pages.put(++newest, Arrays.copyOf(bytes, length));
        return newest;
    }

    @Override
    public void get(long place, byte[] bytes, int length) {
        System.arraycopy(pages.get(place), 0, bytes, 0, length);
    }

    @Override
    public void free(long place, int length) {
        pages.remove(place);
    }
}
