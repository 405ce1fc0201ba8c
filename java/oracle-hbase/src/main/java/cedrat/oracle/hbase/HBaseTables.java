package cedrat.oracle.hbase;

import cedrat.oracle.client.OracleClient;
import cedrat.oracle.client.OracleIdentity;
import cedrat.oracle.client.RowIds;
import cedrat.oracle.client.StartTimestamp;
import cedrat.oracle.tables.Granularity;
import cedrat.oracle.tables.Table;
import cedrat.oracle.tables.TableException;
import cedrat.oracle.tables.Tables;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.ClusterMetrics;
import org.apache.hadoop.hbase.NamespaceDescriptor;
import org.apache.hadoop.hbase.NamespaceExistException;
import org.apache.hadoop.hbase.NamespaceNotFoundException;
import org.apache.hadoop.hbase.TableExistsException;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.TableNotFoundException;
import org.apache.hadoop.hbase.client.AsyncAdmin;
import org.apache.hadoop.hbase.client.AsyncConnection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.TableDescriptor;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// Tables of Apache HBase, through its public client interface; no code of Cedrat runs in its servers.
///
/// | of a transaction | in HBase |
/// |---|---|
/// | version of a cell | version of a cell; its timestamp is the start timestamp |
/// | marker | version of the column of the family `pw` without a qualifier: its timestamp is the start timestamp |
/// | commit timestamp | value of that version instead of the marker |
/// | write of a row | one `Put`, marker and all |
/// | clean-up after a commit | one `Put` of each row, those of several transactions together |
/// | clean-up after an abort, or again | one `CheckAndMutate` of each row, on the marker |
/// | delete of a cell | a value like any other |
/// | unit of conflict | attribute `CEDRAT_CONFLICTS` of the table: `row` or `cell` |
/// | layout of rows | attribute `CEDRAT_LAYOUT` of the table: 3 |
/// | identity of the oracle | attribute `CEDRAT_ORACLE` of the table |
///
/// - H1  Only tables that keep their promises ([Table], B1–B6) are opened: all families keep all versions
///   without limit, deletes end with the next major compaction, and each change is in the log of the region
///   server before it is acknowledged. The refusal of another table names the `alter` that corrects it.
/// - H2  A table that holds timestamps which the oracle has not given yet is not opened: a program without
///   transactions writes to it. Only the newest timestamp shows that; a clock's timestamps are far larger.
/// - H3  A write is sent again only where a region server has certainly refused it.
/// - H4  A table that names another oracle is not opened. [#create] names the oracle in new tables, and in tables of
///   earlier versions, which name none.
/// - H5  A table of another layout is not opened.
///
/// A program that writes or deletes in such a table without transactions corrupts it: HBase's own `delete` hides
/// all versions up to the present time, and so every version.
///
/// **Threads:** any may call.
public final class HBaseTables implements Tables, AutoCloseable {
    private static final int CALLS_MAX = 16;

    private static final Logger RECORDS = LoggerFactory.getLogger(HBaseTables.class);

    /// A write that is refused is offered again for some minutes, by a client that need not know that its
    /// session is over; one that was sent is dropped by a region server that has kept it waiting for
    /// `hbase.rpc.timeout`, a minute. The rest is for networks.
    private static final Duration WRITES_LAST = HBaseTable.REFUSED_PATIENCE.plusMinutes(10);

    private final AsyncConnection connection;
    private final AsyncAdmin admin;
    /// `null` if it is not known yet.
    private volatile OracleIdentity ownIdentity;
    private final OracleClient oracle;
    private final String namespace;
    private final String clusterId;
    private final Map<TableName, HBaseTable> tables = new ConcurrentHashMap<>();

    private HBaseTables(AsyncConnection connection, OracleClient oracle, String namespace) {
        this.connection = connection;
        this.oracle = Objects.requireNonNull(oracle);
        this.namespace = Objects.requireNonNull(namespace);
        admin = connection.getAdmin();
        clusterId = Calls.await(
                        admin.getClusterMetrics(EnumSet.of(ClusterMetrics.Option.CLUSTER_ID)),
                        problem -> Refusals.exception(problem, "cannot read the id of the cluster"))
                .getClusterId();
    }

    /// The tables of HBase's default namespace.
    ///
    /// @throws TableException as [#open(Configuration, OracleClient, String)]
    public static HBaseTables open(Configuration configuration, OracleClient oracle) {
        return open(configuration, oracle, NamespaceDescriptor.DEFAULT_NAMESPACE_NAME_STR);
    }

    /// The tables of a namespace: tables are made there, and cleaners and pruners go over those.
    ///
    /// @param configuration says where HBase is: `hbase.zookeeper.quorum`, and whatever else its client takes
    /// @param oracle the one that gives these tables their timestamps; it is only asked here, not closed
    /// @throws TableException if HBase is not to be reached
    public static HBaseTables open(Configuration configuration, OracleClient oracle, String namespace) {
        AsyncConnection connection = Calls.await(
                ConnectionFactory.createAsyncConnection(configuration),
                problem -> Refusals.exception(
                        problem, "cannot reach HBase; check that it runs, and hbase.zookeeper.quorum"));
        try {
            return new HBaseTables(connection, oracle, namespace);
        } catch (TableException problem) {
            close(connection);
            throw problem;
        }
    }

    /// The table of this name; one of another namespace is `NAMESPACE:NAME`. It is looked at once.
    ///
    /// @throws TableException if there is none, or it is not for transactions
    @Override
    public Table table(String name) {
        TableName named = named(name);
        HBaseTable known = tables.get(named);
        if (known != null) {
            return known;
        }
        TableDescriptor descriptor = Calls.await(
                admin.getDescriptor(named),
                problem -> problem instanceof TableNotFoundException
                        ? new TableException(
                                TableException.Effect.NONE,
                                "there is no table " + named + " in HBase; create it with HBaseTables.create",
                                problem)
                        : Refusals.exception(problem, "cannot read the description of table " + named));
        return look(descriptor);
    }

    /// All tables of the namespace that are for transactions. Each is checked each time: one that another program has
    /// altered, or has dropped and created, is refused like one that was never opened (H1, H4).
    @Override
    public List<Table> all() {
        return all(refused -> {
            throw refused;
        });
    }

    /// The same without the tables that are refused; the receiver of the refusals may throw.
    ///
    /// @throws TableException if HBase does not answer
    public List<Table> all(Consumer<TableException> refusals) {
        List<Table> all = new ArrayList<>();
        List<TableDescriptor> descriptors = descriptors();
        Set<TableName> there =
                descriptors.stream().map(TableDescriptor::getTableName).collect(Collectors.toSet());
        tables.keySet().removeIf(name -> name.getNamespaceAsString().equals(namespace) && !there.contains(name));
        for (TableDescriptor descriptor : descriptors) {
            if (Schema.isForTransactions(descriptor)) {
                try {
                    all.add(checked(descriptor));
                } catch (TableException problem) {
                    if (!isRefusal(problem)) {
                        throw problem;
                    }
                    tables.remove(descriptor.getTableName());
                    refusals.accept(problem);
                }
            }
        }
        return all;
    }

    /// Whether a call has failed because HBase or a table refuses it: the same call fails until that is mended. Other
    /// failures end by themselves, when HBase can be reached again.
    public static boolean isRefusal(TableException problem) {
        return problem.getCause() == null || Refusals.isForGood(problem.getCause());
    }

    private HBaseTable checked(TableDescriptor descriptor) {
        HBaseTable known = tables.get(descriptor.getTableName());
        if (known == null) {
            return look(descriptor);
        }
        Schema.check(descriptor);
        if (Schema.oracle(descriptor) != null) { // else it was said when the table was opened
            identity().ifPresent(identity -> refuseOtherOracle(descriptor, identity));
        }
        return known;
    }

    /// Returns the identity of the oracle. It is that of the client, which is asked once: it may be closed later.
    private Optional<OracleIdentity> identity() {
        if (ownIdentity == null) {
            ownIdentity = oracle.identity().orElse(null);
        }
        return Optional.ofNullable(ownIdentity);
    }

    @Override
    public long namespace() {
        return namespace(namespace);
    }

    /// Returns the number of a namespace of this cluster: another cluster may have a namespace of the same
    /// name.
    private long namespace(String name) {
        return RowIds.of(clusterId.getBytes(StandardCharsets.UTF_8), name.getBytes(StandardCharsets.UTF_8));
    }

    private List<TableDescriptor> descriptors() {
        try {
            return Calls.await(
                    admin.listTableDescriptorsByNamespace(namespace),
                    problem -> Refusals.exception(problem, "cannot list the tables of namespace " + namespace));
        } catch (TableException problem) {
            if (problem.getCause() instanceof NamespaceNotFoundException) {
                return List.of(); // the namespace has no tables
            }
            throw problem;
        }
    }

    @Override
    public Duration writesLast() {
        return WRITES_LAST;
    }

    @Override
    public int callsMax() {
        return CALLS_MAX;
    }

    @Override
    public void bind(OracleIdentity used) {
        oracle.identity().filter(own -> !own.equals(used)).ifPresent(own -> {
            throw TableException.ofOtherOracle("the tables of namespace " + namespace, own.toString(), used);
        });
    }

    private HBaseTable look(TableDescriptor descriptor) {
        Granularity granularity = Schema.check(descriptor);
        identity().ifPresent(identity -> refuseOtherOracle(descriptor, identity));
        TableName name = descriptor.getTableName();
        HBaseTable table = new HBaseTable(connection, name, granularity, Schema.checksScans(descriptor));
        refuseForeignTimestamps(table);
        oracle.use(namespace(name.getNamespaceAsString())); // not necessarily that of this store
        HBaseTable first = tables.putIfAbsent(descriptor.getTableName(), table);
        return first == null ? table : first;
    }

    /// Refuses a table of another oracle (H4).
    private static void refuseOtherOracle(TableDescriptor descriptor, OracleIdentity identity) {
        String bound = Schema.oracle(descriptor);
        TableName name = descriptor.getTableName();
        if (bound == null) {
            RECORDS.atWarn()
                    .addKeyValue("table", name)
                    .log(
                            "the table does not name its oracle, and another one would not be noticed; in HBase's shell: alter '"
                                    + name + "', METADATA => {'" + Schema.ORACLE + "' => '" + identity + "'}");
        } else if (!bound.equals(identity.toString())) {
            throw TableException.ofOtherOracle("table " + name, bound, identity);
        }
    }

    /// Refuses a table with timestamps that the oracle has not given (H2). Transactions continue meanwhile: a timestamp
    /// is foreign if the oracle gives a lower one *after* it was found.
    private void refuseForeignTimestamps(HBaseTable table) {
        long newest = newest();
        long found = table.timestampFrom(newest);
        while (found > 0) {
            newest = newest();
            if (found >= newest) {
                throw new TableException(
                        TableException.Effect.NONE,
                        "table " + table.name() + " holds the timestamp " + found + ", but the oracle's newest is "
                                + newest
                                + ": a program writes or deletes there without transactions, or the table belongs "
                                + "to another oracle; copy its rows into a new table",
                        null);
            }
            found = table.timestampFrom(newest);
        }
    }

    private long newest() {
        StartTimestamp newest = oracle.begin();
        oracle.endAsync(newest);
        return newest.value();
    }

    /// Makes a table, and its namespace where that is missing.
    ///
    /// @param checksScans whether serialisable transactions may scan it ([Table#checksScans])
    /// @param families where its columns are
    /// @param splitKeys it begins with one region more than there are keys
    /// @return the table; if there was one of this name, that one, if it is for transactions and conflicts alike
    /// @throws TableException if it cannot be made
    public Table create(
            String name, Granularity granularity, boolean checksScans, List<String> families, List<byte[]> splitKeys) {
        TableName named = named(name);
        make(
                NamespaceExistException.class,
                () -> admin.createNamespace(
                        NamespaceDescriptor.create(named.getNamespaceAsString()).build()),
                "the namespace " + named.getNamespaceAsString());
        Optional<OracleIdentity> identity = oracle.identity();
        TableDescriptor unbound = Schema.descriptor(named, granularity, checksScans, families);
        TableDescriptor descriptor =
                identity.map(each -> Schema.bound(unbound, each)).orElse(unbound);
        make(
                TableExistsException.class,
                () -> splitKeys.isEmpty()
                        ? admin.createTable(descriptor)
                        : admin.createTable(descriptor, splitKeys.toArray(byte[][]::new)),
                "the table " + named);
        identity.ifPresent(each -> nameOracle(named, each));
        Table table = table(name);
        if (table.granularity() != granularity) {
            throw new TableException(
                    TableException.Effect.NONE,
                    "table " + named + " exists, and its conflicts are by " + Schema.text(table.granularity())
                            + ": create it with the same granularity, or choose another name",
                    null);
        }
        if (table.checksScans() != checksScans) {
            throw new TableException(
                    TableException.Effect.NONE,
                    "table " + named + " exists, and serialisable transactions may " + (checksScans ? "not " : "")
                            + "scan it: create it with the same choice, or choose another name",
                    null);
        }
        return table;
    }

    /// Names the oracle in a table that names none, if this client may alter tables. No region is reopened.
    private void nameOracle(TableName name, OracleIdentity identity) {
        try {
            TableDescriptor found = Calls.await(admin.getDescriptor(name), problem -> cannotBind(name, problem));
            if (Schema.oracle(found) == null && Schema.isForTransactions(found) && Schema.isLayoutNow(found)) {
                Calls.await(
                        admin.modifyTable(Schema.bound(found, identity), false), problem -> cannotBind(name, problem));
            }
        } catch (TableException left) {
            RECORDS.atWarn().setCause(left).log("the table does not name its oracle");
        }
    }

    private static TableException cannotBind(TableName name, Throwable problem) {
        return Refusals.exception(problem, "cannot name the oracle in the description of table " + name);
    }

    /// With one region, and not for scans by serialisable transactions.
    public Table create(String name, Granularity granularity, List<String> families) {
        return create(name, granularity, false, families, List.of());
    }

    /// Creates a table, which another client may create at the same time.
    private static void make(
            Class<? extends IOException> itIsThere, Supplier<CompletableFuture<Void>> made, String what) {
        try {
            Calls.await(made.get(), problem -> Refusals.exception(problem, "cannot create " + what));
        } catch (TableException problem) {
            if (!itIsThere.isInstance(problem.getCause())) {
                throw problem;
            }
        }
    }

    private TableName named(String name) {
        return name.indexOf(TableName.NAMESPACE_DELIM) < 0
                ? TableName.valueOf(namespace, name)
                : TableName.valueOf(name);
    }

    /// Ends the connection. Tables are of no use any more.
    @Override
    public void close() {
        close(connection);
    }

    private static void close(AsyncConnection connection) {
        try {
            connection.close();
        } catch (IOException problem) {
            throw Refusals.exception(problem, "cannot close the connection to HBase");
        }
    }
}
