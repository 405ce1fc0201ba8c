package cedrat.oracle.tables;

import cedrat.oracle.client.OracleClient;

/// A store to test transactions over: what passes over one has to pass over all.
public interface TestStore extends AutoCloseable {
    /// Comes first: whose timestamps its tables have.
    default void open(OracleClient oracle) {}

    /// Its tables.
    Tables tables();

    /// Makes a table, and calls it by this name or one that begins with it.
    void create(String name, Granularity granularity, boolean checksScans);

    /// Does away with whatever the store still keeps of what was removed.
    void compact();

    /// How many cells a scan of all tables passes over: versions, markers, and what was removed and is still
    /// kept.
    long cells();

    /// So much less is done over it than over one in memory.
    int scale();

    /// Removes it.
    @Override
    void close();

    /// One in memory.
    static TestStore memory() {
        MemoryTables tables = new MemoryTables();
        return new TestStore() {
            @Override
            public Tables tables() {
                return tables;
            }

            @Override
            public void create(String name, Granularity granularity, boolean checksScans) {
                tables.create(name, granularity, checksScans);
            }

            @Override
            public void compact() {
                // keeps nothing
            }

            @Override
            public long cells() {
                Contents contents = Contents.of(tables);
                return contents.versions() + contents.pending();
            }

            @Override
            public int scale() {
                return 1;
            }

            @Override
            public void close() {
                // ends with this program
            }
        };
    }
}
