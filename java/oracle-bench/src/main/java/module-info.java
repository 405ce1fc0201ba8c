/// Figures of the status oracle, beside those of a server that only echoes.
module cedrat.oracle.bench {
    requires cedrat.bench.figures;
    requires cedrat.oracle.client;
    requires cedrat.oracle.protocol;
    requires cedrat.oracle.server;
    requires cedrat.services;
    requires info.picocli;
    requires io.netty.buffer;
    requires io.netty.common;
    requires io.netty.transport;
    requires io.netty.transport.classes.epoll;

    uses cedrat.oracle.log.SharedLogs;

    opens cedrat.oracle.bench to
            info.picocli;
}
