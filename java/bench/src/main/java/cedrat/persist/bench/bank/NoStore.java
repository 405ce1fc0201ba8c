package cedrat.persist.bench.bank;

import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.Map;

/// Takes commits and keeps nothing of them: what is left is what the Java side of a commit costs.
public final class NoStore implements GraphStore {
    private static final int NEW = 1;
    private static final int PATCH = 2;

    private long newest;

    @Override
    public List<byte[]> classes(int first) {
        return List.of();
    }

    @Override
    public Map<String, Long> roots() {
        return Map.of();
    }

    @Override
    public byte[] read(long identity) throws GraphStoreException {
        throw new GraphStoreException("nothing was kept", null, false);
    }

    @Override
    public synchronized Committed commit(byte[] buffer, int length) {
        ByteBuffer entries = ByteBuffer.wrap(buffer, 0, length).order(ByteOrder.LITTLE_ENDIAN);
        int created = 0;
        for (int at = 0; at < length; ) {
            int kind = entries.get(at);
            created += kind == NEW ? 1 : 0;
            at += 8 + (kind == NEW ? 0 : kind == PATCH ? 16 : 8) + (entries.getInt(at + 4) + 7 & -8);
        }
        long[] identities = new long[created];
        for (int object = 0; object < created; object++) {
            identities[object] = ++newest;
        }
        return new Committed(identities, newest);
    }

    @Override
    public void waitDurable(long lsn) {}

    @Override
    public void close() {}
}
