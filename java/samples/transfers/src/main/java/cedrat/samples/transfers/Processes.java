package cedrat.samples.transfers;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.hbase.HBaseTables;
import cedrat.oracle.tables.Cleaner;
import cedrat.oracle.tables.Contents;
import cedrat.oracle.tables.Granularity;
import cedrat.oracle.tables.HookedTables;
import cedrat.oracle.tables.Isolation;
import cedrat.oracle.tables.Pruner;
import cedrat.oracle.tables.Tables;
import cedrat.oracle.tables.Transaction;
import cedrat.oracle.tables.TransactionManager;
import java.io.BufferedReader;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;

/// The accounts in two tables of HBase, and the clients processes of their own.
///
/// @param options options of the oracle's clients
/// @param zooKeeper address of HBase's ZooKeeper
/// @param clients number of clients
/// @param transfersEach number of transfers of each
/// @param accounts number of accounts in each table
/// @param seed seed of the random choices
/// @param witness receives the operations of this process
/// @param program what a client runs: a class with a `main` that takes this command's arguments
record Processes(
        ClientOptions options,
        InetSocketAddress zooKeeper,
        int clients,
        int transfersEach,
        int accounts,
        long seed,
        Witness witness,
        Class<?> program) {
    private static final String NAMESPACE = "transfers";
    private static final String IN_A_COMMIT = "in a commit";

    private HBaseTables tables(OracleClient oracle) {
        Configuration configuration = HBaseConfiguration.create();
        configuration.set("hbase.zookeeper.quorum", zooKeeper.getHostString());
        configuration.setInt("hbase.zookeeper.property.clientPort", zooKeeper.getPort());
        return HBaseTables.open(configuration, oracle, NAMESPACE);
    }

    // ---- the one that starts them
    // -----------------------------------------------------------------------------------

    Transfers.Report run() throws IOException, InterruptedException {
        List<Process> processes = new ArrayList<>();
        try (OracleClient oracle = OracleClient.open(options);
                HBaseTables tables = tables(oracle);
                TransactionManager manager = new TransactionManager(oracle, tables)) {
            tables.create(Accounts.CURRENT, Granularity.ROW, List.of(Accounts.FAMILY));
            tables.create(Accounts.SAVINGS, Granularity.ROW, List.of(Accounts.FAMILY));
            Accounts all = new Accounts(tables, accounts, witness);
            all.open(manager);
            for (int number = 0; number < clients; number++) {
                processes.add(start(number));
            }
            Process dying = processes.getFirst();
            Thread.ofVirtual().start(() -> killInACommit(dying));

            long totals = 0;
            long wrong = 0;
            do {
                totals++;
                wrong += all.isTotalRight(manager) ? 0 : 1;
                new Pruner(oracle, tables).prune();
            } while (processes.stream().anyMatch(Process::isAlive));

            // The oracle aborts what the dead one had open when its session is over; then its row can be
            // cleaned.
            Cleaner cleaner = new Cleaner(oracle, tables);
            long removed = 0;
            do {
                removed += cleaner.sweep().aborted();
            } while (Contents.of(tables).pending() > 0);
            new Pruner(oracle, tables).prune();
            totals++;
            wrong += all.isTotalRight(manager) ? 0 : 1;
            long transfers = (long) (clients - 1) * transfersEach + transfersEach / 2;
            for (Process process : processes) {
                if (process != dying && process.waitFor() != 0) {
                    throw new IOException("a client has failed with exit code " + process.exitValue());
                }
            }
            return new Transfers.Report(
                    transfers, totals, wrong, removed, Contents.of(tables).versions());
        } finally {
            processes.forEach(Process::destroyForcibly);
        }
    }

    private Process start(int number) throws IOException {
        List<String> words = new ArrayList<>(List.of(
                ProcessHandle.current().info().command().orElse("java"),
                "-Xmx128m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "--enable-native-access=ALL-UNNAMED",
                "--sun-misc-unsafe-memory-access=allow",
                "-cp",
                System.getProperty("java.class.path"),
                program.getName(),
                "--oracle",
                options.servers().stream().map(Processes::address).collect(Collectors.joining(",")),
                "--hbase",
                address(zooKeeper),
                "--transfers",
                "" + transfersEach,
                "--accounts",
                "" + accounts,
                "--seed",
                "" + (seed + number),
                "--as-client"));
        if (number == 0) {
            words.add("--dies");
        }
        options.tls()
                .ifPresent(tls -> words.addAll(List.of(
                        "--tls-certificate", tls.certificate().toString(),
                        "--tls-key", tls.key().toString(),
                        "--tls-authorities", tls.authorities().toString())));
        return new ProcessBuilder(words)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
    }

    static String address(InetSocketAddress address) {
        return address.getHostString() + ":" + address.getPort();
    }

    /// Kills the process when it says where it is.
    private static void killInACommit(Process process) {
        try (BufferedReader said = process.inputReader()) {
            for (String line = said.readLine(); line != null && !line.equals(IN_A_COMMIT); line = said.readLine()) {
                // it has not got so far
            }
        } catch (IOException ended) {
            System.err.println("transfers: the client that was to be killed has ended by itself: " + ended);
        }
        process.destroyForcibly();
    }

    // ---- a client
    // ---------------------------------------------------------------------------------------------------

    /// Makes its transfers. If it is to die, it makes half of them, and stays in the middle of a commit: one
    /// row is written, the other is not.
    int pay(boolean dies) {
        SplittableRandom random = new SplittableRandom(seed);
        try (OracleClient oracle = OracleClient.open(options);
                HBaseTables tables = tables(oracle);
                TransactionManager manager = new TransactionManager(oracle, tables)) {
            Accounts all = new Accounts(tables, accounts, witness);
            for (int count = 0; count < (dies ? transfersEach / 2 : transfersEach); count++) {
                all.transferSome(manager, random);
            }
            if (dies) {
                stayInACommit(oracle, tables);
            }
        }
        return 0;
    }

    private void stayInACommit(OracleClient oracle, Tables tables) {
        Tables staying = new HookedTables(tables, (point, table, row, mutation) -> {
            if (point == HookedTables.Point.AFTER_MUTATE) {
                System.out.println(IN_A_COMMIT);
                while (true) {
                    LockSupport.park();
                }
            }
        });
        try (Transaction last = new TransactionManager(oracle, staying).begin(Isolation.SNAPSHOT)) {
            new Accounts(staying, accounts, Witness.NONE).emptyFirst(last);
            last.commit();
        }
    }
}
