package cedrat.oracle.maintenance;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.hbase.HBaseTables;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.TableException;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.apache.hadoop.conf.Configuration;

/// Namespaces of an HBase.
final class HBaseStore implements Store {
    /// Connects to an HBase.
    ///
    /// @param configuration that of HBase's client
    /// @param namespaces names of namespaces
    /// @param tables names of the tables to be visited; none for all
    record Opener(ClientOptions oracle, Configuration configuration, List<String> namespaces, List<String> tables)
            implements Store.Opener {
        @Override
        public Store open() {
            return new HBaseStore(this);
        }

        @Override
        public boolean isRefusal(TableException problem) {
            return HBaseTables.isRefusal(problem);
        }
    }

    private record Namespace(String name, HBaseTables tables, List<String> wanted) implements Part {
        @Override
        public boolean isRefusal(TableException problem) {
            return HBaseTables.isRefusal(problem);
        }

        @Override
        public boolean isWhole() {
            return wanted.isEmpty();
        }

        @Override
        public List<Table> usable(Consumer<TableException> refusals) {
            if (isWhole()) {
                return tables.all(refusals);
            }
            tables.all(refused -> {}); // so that what is known of each is of now
            List<Table> usable = new ArrayList<>();
            for (String each : wanted) {
                try {
                    usable.add(tables.table(each));
                } catch (TableException problem) {
                    if (!HBaseTables.isRefusal(problem)) {
                        throw problem;
                    }
                    refusals.accept(problem);
                }
            }
            return usable;
        }
    }

    private final OracleClient oracle;
    private final List<Part> parts = new ArrayList<>();
    private final List<HBaseTables> open = new ArrayList<>();

    private HBaseStore(Opener opener) {
        oracle = OracleClient.open(opener.oracle);
        try {
            for (String name : opener.namespaces) {
                HBaseTables tables = HBaseTables.open(opener.configuration, oracle, name);
                open.add(tables);
                parts.add(new Namespace(name, tables, opener.tables));
            }
        } catch (RuntimeException problem) {
            close();
            throw problem;
        }
    }

    @Override
    public OracleClient oracle() {
        return oracle;
    }

    @Override
    public List<Part> parts() {
        return parts;
    }

    /// The sessions and connections end with the process at the latest.
    @Override
    public void close() {
        try {
            open.forEach(HBaseTables::close);
        } finally {
            oracle.close();
        }
    }
}
