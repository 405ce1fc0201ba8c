/// The status oracle as a server: receive → decide → persist → reply.
@SuppressWarnings("requires-automatic") // of Prometheus
module cedrat.oracle.server {
    requires transitive cedrat.oracle.log;
    requires cedrat.oracle.log.embedded;
    requires cedrat.oracle.protocol;
    requires cedrat.oracle.state;
    requires info.picocli;
    requires io.netty.buffer;
    requires io.netty.common;
    requires io.netty.transport;
    requires io.prometheus.metrics.config;
    requires io.prometheus.metrics.model;
    requires io.prometheus.writer.text;
    requires jdk.httpserver;
    requires org.slf4j;

    exports cedrat.oracle.server;

    uses cedrat.oracle.log.SharedLogs;

    opens cedrat.oracle.server to
            info.picocli;
}
