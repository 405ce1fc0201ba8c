package cedrat.oracle.maintenance;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Option;

/// Options that say where the tables are.
final class HBaseOptions {
    /// HBase's defaults are twenty minutes: an outage would be noticed as late.
    private static final String CALL_MS = "60000";

    private static final List<String> CALLS =
            List.of("hbase.client.operation.timeout", "hbase.client.meta.operation.timeout");

    /// One of the ways to find HBase.
    private static final class Place {
        @Option(
                names = "--hbase",
                paramLabel = "HOST:PORT[,...]",
                required = true,
                description = "The ZooKeeper of HBase.")
        private String zooKeeper;

        @Option(
                names = "--hbase-configuration",
                paramLabel = "DIR",
                required = true,
                description = "The directory with hbase-site.xml of HBase's clients.")
        private Path configuration;
    }

    @ArgGroup(exclusive = true, multiplicity = "1")
    private Place place;

    @Option(
            names = "--namespace",
            paramLabel = "NAME",
            split = ",",
            defaultValue = "default",
            description =
                    "The namespaces of HBase whose tables are visited: all that are for transactions, also those that are created later (default: ${DEFAULT-VALUE}).")
    private List<String> namespaces;

    @Option(
            names = "--table",
            paramLabel = "NAME",
            split = ",",
            description =
                    "Visit these tables alone, of one namespace. A sweep then cleans their rows, but the oracle forgets no outcome, as other tables may need it.")
    private List<String> tables = List.of();

    HBaseOptions() {}

    List<String> namespaces() {
        return namespaces.stream().distinct().toList();
    }

    /// @throws IllegalArgumentException if tables of several namespaces are named
    List<String> tables() {
        if (!tables.isEmpty() && namespaces().size() > 1) {
            throw new IllegalArgumentException("--table needs one --namespace: name the tables of one at a time");
        }
        return tables;
    }

    /// @throws IOException if the directory has none
    Configuration configuration() throws IOException {
        Configuration configuration = HBaseConfiguration.create();
        if (place.configuration == null) {
            configuration.set("hbase.zookeeper.quorum", place.zooKeeper);
        } else {
            Path site = place.configuration.resolve("hbase-site.xml");
            if (!Files.isReadable(site)) {
                throw new IOException("cannot read " + site
                        + ": name the directory of HBase's configuration with --hbase-configuration");
            }
            for (String name : List.of("core-site.xml", "hbase-site.xml")) {
                Path file = place.configuration.resolve(name);
                if (Files.exists(file)) {
                    configuration.addResource(new org.apache.hadoop.fs.Path(file.toUri()));
                }
            }
        }
        for (String call : CALLS) {
            String[] sources = configuration.getPropertySources(call);
            if (sources == null || List.of(sources).contains("hbase-default.xml")) {
                configuration.set(call, CALL_MS);
            }
        }
        return configuration;
    }
}
