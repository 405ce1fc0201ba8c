package cedrat.services;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/// HDFS on the loopback: a NameNode and one DataNode, which keeps one copy of each block.
///
/// Started again in its folder and on its ports, it is the one it was.
public final class Hdfs implements AutoCloseable {
    /// Of which services the class path is.
    static final String CLASS_PATH = "hbase";

    private static final String PACKAGE = "org.apache.hadoop.hdfs.server.";

    /// Ports that it listens on.
    ///
    /// @param nameNode the NameNode's, for its clients
    /// @param nameNodeHttp the same, for people
    /// @param dataNode the DataNode's, for blocks
    /// @param dataNodeHttp the same, for people
    /// @param dataNodeIpc the same, for commands
    public record Ports(int nameNode, int nameNodeHttp, int dataNode, int dataNodeHttp, int dataNodeIpc) {
        /// Returns free ports.
        public static Ports free() throws IOException {
            return new Ports(FreePorts.next(), FreePorts.next(), FreePorts.next(), FreePorts.next(), FreePorts.next());
        }
    }

    private final Service nameNode;
    private final Service dataNode;
    private final Ports ports;

    private Hdfs(Service nameNode, Service dataNode, Ports ports) {
        this.nameNode = nameNode;
        this.dataNode = dataNode;
        this.ports = ports;
    }

    /// Starts it with its data below this folder; returns when blocks can be written.
    public static Hdfs start(Path folder, Ports ports) throws IOException {
        Service nameNode = nameNode(folder, ports).start();
        Service dataNode = dataNode(folder, ports).start();
        Hdfs hdfs = new Hdfs(nameNode, dataNode, ports);
        try {
            nameNode.awaitReady(() -> {
                if (!dataNode.isAlive()) {
                    throw dataNode.problem("has ended");
                }
                return answers(ports) && dataNodeAnswers(ports);
            });
        } catch (IOException problem) {
            hdfs.close();
            throw problem;
        }
        return hdfs;
    }

    /// Returns the program of the NameNode, with its configuration and, at first, its empty data.
    static Command nameNode(Path folder, Ports ports) throws IOException {
        Path configuration = configure(folder, ports);
        if (!Files.exists(folder.resolve("name"))) {
            command("the format of HDFS", folder.resolve("format"), configuration, "namenode.NameNode")
                    .withArguments(List.of("-format", "-nonInteractive"))
                    .run();
        }
        return command("the NameNode", folder.resolve("namenode"), configuration, "namenode.NameNode");
    }

    /// Returns the program of the DataNode.
    static Command dataNode(Path folder, Ports ports) throws IOException {
        return command("the DataNode", folder.resolve("datanode"), configure(folder, ports), "datanode.DataNode");
    }

    /// Whether the NameNode has a DataNode, and blocks can be written.
    static boolean answers(Ports ports) throws IOException {
        String state = Jmx.ask(ports.nameNodeHttp, "Hadoop:service=NameNode,name=FSNamesystemState");
        return Jmx.number(state, "NumLiveDataNodes") == 1 && state.contains("\"Operational\"");
    }

    /// Whether the DataNode has registered at the NameNode. The NameNode lists one that has ended for minutes.
    static boolean dataNodeAnswers(Ports ports) throws IOException {
        return Jmx.ask(ports.dataNodeHttp, "Hadoop:service=DataNode,name=DataNodeInfo")
                .contains("\\\"ActorState\\\":\\\"RUNNING\\\"");
    }

    private static Command command(String name, Path folder, Path configuration, String main) throws IOException {
        return HadoopProcess.command(name, folder, configuration, "-Xmx128m", PACKAGE + main);
    }

    private static Path configure(Path folder, Ports ports) throws IOException {
        Path configuration = folder.resolve("conf");
        HadoopProcess.write(
                configuration,
                "core-site.xml",
                "fs.defaultFS",
                address(ports),
                "hadoop.tmp.dir",
                folder.resolve("tmp").toString());
        HadoopProcess.write(
                configuration,
                "hdfs-site.xml",
                "dfs.replication",
                "1",
                "dfs.permissions.enabled",
                "false",
                // Seconds: what the NameNode wants of the DataNode, it says in answer to a heartbeat.
                "dfs.heartbeat.interval",
                "1",
                "dfs.namenode.safemode.extension",
                "0",
                "dfs.namenode.name.dir",
                folder.resolve("name").toString(),
                "dfs.datanode.data.dir",
                folder.resolve("data").toString(),
                "dfs.namenode.http-address",
                "127.0.0.1:" + ports.nameNodeHttp,
                "dfs.datanode.address",
                "127.0.0.1:" + ports.dataNode,
                "dfs.datanode.http.address",
                "127.0.0.1:" + ports.dataNodeHttp,
                "dfs.datanode.ipc.address",
                "127.0.0.1:" + ports.dataNodeIpc);
        return configuration;
    }

    static String address(Ports ports) {
        return "hdfs://127.0.0.1:" + ports.nameNode;
    }

    /// Its root.
    public String address() {
        return address(ports);
    }

    /// Its processes.
    public List<Service> services() {
        return List.of(nameNode, dataNode);
    }

    /// Kills it.
    @Override
    public void close() {
        dataNode.close();
        nameNode.close();
    }
}
