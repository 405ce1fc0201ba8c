package cedrat.services;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/// Common part of HDFS and HBase processes. They run with a JDK 17: they do not support later ones.
final class HadoopProcess {
    /// The system property that names the folder of a JDK 17.
    static final String JDK_PROPERTY = "cedrat.jdk17";

    private static final Path JDKS = Path.of("/usr/lib/jvm");

    private static final List<String> JVM = List.of(
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "--add-modules=jdk.unsupported",
            "--add-opens=java.base/java.nio=ALL-UNNAMED",
            "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
            "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
            "--add-opens=java.base/java.util=ALL-UNNAMED",
            "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
            "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
            "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED");

    /// Folders that the servers look for on their class path, with pages for people, and without which they do
    /// not start. They may be empty.
    private static final List<String> PAGES =
            List.of("webapps/hdfs", "webapps/datanode", "hbase-webapps/master", "hbase-webapps/regionserver");

    private HadoopProcess() {}

    static Command command(String name, Path folder, Path configuration, String heap, String main) throws IOException {
        for (String page : PAGES) {
            Files.createDirectories(configuration.resolve(page));
        }
        Files.writeString(configuration.resolve("log4j.properties"), """
                log4j.rootLogger=INFO, out
                log4j.appender.out=org.apache.log4j.ConsoleAppender
                log4j.appender.out.layout=org.apache.log4j.PatternLayout
                log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %-5p [%t] %c{1}: %m%n
                """);
        List<String> jvm = new ArrayList<>(JVM);
        jvm.add(heap);
        return new Command(
                name, folder, jdk(), jvm, configuration + ":" + Command.classPath(Hdfs.CLASS_PATH), main, List.of());
    }

    /// A JDK 17: the one that was named, or Debian's.
    private static Path jdk() throws IOException {
        String named = System.getProperty(JDK_PROPERTY);
        if (named != null) {
            return Path.of(named);
        }
        if (Files.isDirectory(JDKS)) {
            try (Stream<Path> all = Files.list(JDKS)) {
                for (Path jdk : all.sorted().toList()) {
                    if (jdk.getFileName().toString().startsWith("java-17-openjdk")
                            && Files.isExecutable(jdk.resolve("bin/java"))) {
                        return jdk;
                    }
                }
            }
        }
        throw new IOException(
                "HDFS and HBase need a JDK 17: install Debian's openjdk-17-jre-headless, or name one with -D"
                        + JDK_PROPERTY);
    }

    /// Writes a file of properties as Hadoop reads them: names and values in turn.
    static void write(Path configuration, String file, String... properties) throws IOException {
        Files.createDirectories(configuration);
        StringBuilder text = new StringBuilder("<configuration>\n");
        for (int index = 0; index < properties.length; index += 2) {
            text.append("  <property><name>")
                    .append(properties[index])
                    .append("</name><value>")
                    .append(properties[index + 1])
                    .append("</value></property>\n");
        }
        Files.writeString(configuration.resolve(file), text.append("</configuration>\n"));
    }
}
