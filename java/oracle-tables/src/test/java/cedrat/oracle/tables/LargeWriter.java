package cedrat.oracle.tables;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import java.net.InetSocketAddress;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicLong;

/// Program with a transaction that writes more than its heap can hold, into tables that only count.
final class LargeWriter {
    static final int VALUE_BYTES = 1 << 20;

    private LargeWriter() {}

    /// Keeps only sums of the written values.
    private static final class Counting implements Tables, Table {
        final AtomicLong rows = new AtomicLong();
        final AtomicLong sum = new AtomicLong();

        @Override
        public Table table(String name) {
            return this;
        }

        @Override
        public List<Table> all() {
            return List.of(this);
        }

        @Override
        public boolean isVolatile() {
            return true;
        }

        @Override
        public int callsMax() {
            return 2;
        }

        @Override
        public int rowsPerCall() {
            return 256;
        }

        @Override
        public String name() {
            return "counting";
        }

        @Override
        public Granularity granularity() {
            return Granularity.ROW;
        }

        @Override
        public void mutate(Bytes row, Mutation mutation) {
            for (Mutation.Version put : mutation.puts()) {
                rows.incrementAndGet();
                sum.addAndGet(Values.value(put.value()).hashCode());
            }
        }

        @Override
        public boolean mutateIfMarked(Bytes row, long start, Mutation mutation) {
            return false;
        }

        @Override
        public StoredRow read(Bytes row, Set<Column> columns, long below, int versionsMax) {
            return new StoredRow(
                    row,
                    Collections.emptyNavigableMap(),
                    Collections.emptyNavigableSet(),
                    Collections.emptyNavigableMap());
        }

        @Override
        public StoredRows scan(Scan scan, long below, int versionsMax) {
            throw new UnsupportedOperationException();
        }

        @Override
        public StoredRows marked(KeyRange range) {
            throw new UnsupportedOperationException();
        }
    }

    private static Bytes value(int row) {
        byte[] bytes = new byte[VALUE_BYTES];
        new SplittableRandom(row).nextBytes(bytes);
        return Bytes.own(bytes);
    }

    /// Writes rows of 1 MiB, and commits. Arguments: port of the oracle, bytes of the write buffer, number of rows.
    public static void main(String[] arguments) {
        int port = Integer.parseInt(arguments[0]);
        int count = Integer.parseInt(arguments[2]);
        TransactionManager.Options options =
                TransactionManager.Options.DEFAULTS.withWriteBufferBytes(Long.parseLong(arguments[1]));
        Counting tables = new Counting();
        long expected = 0;
        try (OracleClient oracle = OracleClient.open(ClientOptions.of(new InetSocketAddress("127.0.0.1", port)));
                TransactionManager manager = new TransactionManager(oracle, tables, options);
                Transaction transaction = manager.begin(Isolation.SNAPSHOT)) {
            for (int row = 0; row < count; row++) {
                Bytes value = value(row);
                expected += value.hashCode();
                transaction.put(tables, Bytes.of(row), World.VALUE, value);
            }
            Bytes first = transaction.get(tables, Bytes.of(0L), World.VALUE).orElseThrow();
            if (!first.equals(value(0))) {
                throw new AssertionError("another value");
            }
            transaction.commit();
            if (tables.sum.get() != expected || tables.rows.get() != count) {
                throw new AssertionError("other rows");
            }
        }
        System.out.println("committed " + count);
    }
}
