package cedrat.samples.transfers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.oracle.log.VolatileLog;
import cedrat.oracle.server.OracleServer;
import cedrat.oracle.server.ServerOptions;
import cedrat.services.Command;
import cedrat.services.HBaseCluster;
import cedrat.services.Service;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// The command with tables in a real HBase, as a user runs it.
@Tag("services")
@Timeout(300)
class ProcessesTest {
    private static final int CLIENTS = 3;
    private static final int TRANSFERS = 30;

    private static final Pattern REPORT = Pattern.compile((CLIENTS * TRANSFERS - TRANSFERS / 2)
            + " transfers; the total was taken (\\d+) times and was wrong 0 times;\n"
            + "1 rows of the client that died were removed; 20 versions of 10 accounts are left\n");

    /// Where `./x test` has histories judged, under what is expected of them.
    private static final Path JUDGED = Path.of("target/histories/strong-snapshot-isolation/transfers.jsonl");

    @TempDir
    private Path folder;

    /// Its output is what it has to say, and nothing of what the libraries have. What its processes have seen
    /// is judged.
    @Test
    void totalIsUnchangedWhenProcessIsKilled() throws Exception {
        ServerOptions options = ServerOptions.DEFAULTS
                .withListen(new InetSocketAddress("127.0.0.1", 0))
                .withSessionTimeout(Duration.ofSeconds(3));
        try (HBaseCluster cluster = HBaseCluster.start(folder, 1);
                OracleServer server = OracleServer.start(options, new VolatileLog());
                Service transfers = Command.of(
                                "the sample",
                                folder.resolve("transfers"),
                                List.of(
                                        "-Xmx128m",
                                        "-XX:+UseSerialGC",
                                        "-XX:TieredStopAtLevel=1",
                                        "--enable-native-access=ALL-UNNAMED",
                                        "--sun-misc-unsafe-memory-access=allow"),
                                System.getProperty("java.class.path"),
                                RecordedMain.class.getName(),
                                List.of(
                                        "--oracle",
                                        "127.0.0.1:" + server.address().getPort(),
                                        "--hbase",
                                        cluster.zooKeeper().address(),
                                        "--clients",
                                        "" + CLIENTS,
                                        "--transfers",
                                        "" + TRANSFERS,
                                        "--accounts",
                                        "5"))
                        .start()) {
            int code = transfers.awaitEnd();
            String said = Files.readString(transfers.log());
            assertEquals(0, code, said);
            Matcher report = REPORT.matcher(said);
            assertTrue(report.matches(), said);
            int totals = Integer.parseInt(report.group(1));
            assertTrue(totals > 2, said);

            List<String> history = RecordedMain.history(folder.resolve("transfers"));
            assertTrue(history.size() > 2 * CLIENTS * TRANSFERS);
            Files.createDirectories(JUDGED.getParent());
            Files.write(JUDGED, history);
        }
    }
}
