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

    /// Returns the number of cells that a scan of all tables passes over: versions, markers, and removed cells
    /// that are still stored.
    long cells();

    /// Returns the factor by which tests do less over it than over a store in memory.
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
                return Contents.of(tables).cells();
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
