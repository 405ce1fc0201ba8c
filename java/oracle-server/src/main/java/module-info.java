/// The status oracle as a server: receive → decide → persist → reply.
///
/// Its embedded log calls libcedrat through `java.lang.foreign`: start the JVM with
/// `--enable-native-access=cedrat.library,cedrat.oracle.server` (`ALL-UNNAMED` on the class path), and say by
/// `-Dcedrat.library=PATH` where the library is.
@SuppressWarnings("requires-automatic") // of Prometheus
module cedrat.oracle.server {
    requires cedrat.library;
    requires transitive cedrat.oracle.protocol;
    requires info.picocli;
    requires io.netty.buffer;
    requires io.netty.common;
    requires io.netty.handler;
    requires io.netty.transport;
    requires io.prometheus.metrics.config;
    requires io.prometheus.metrics.model;
    requires io.prometheus.writer.text;
    requires java.management;
    requires java.security.sasl;
    requires jdk.httpserver;
    requires jdk.management;
    requires org.slf4j;

    exports cedrat.oracle.log;
    exports cedrat.oracle.log.embedded;
    exports cedrat.oracle.server;
    exports cedrat.oracle.state;

    uses cedrat.oracle.log.SharedLogs;
    uses cedrat.oracle.server.Subcommands;

    opens cedrat.oracle.server to
            info.picocli;
}
