/// Client of the status oracle: transactions are begun, committed and resolved here; rows are read and
/// written elsewhere.
module cedrat.oracle.client {
    requires transitive cedrat.oracle.protocol;
    requires io.netty.buffer;
    requires io.netty.common;
    requires io.netty.handler;
    requires io.netty.transport;

    exports cedrat.oracle.client;
}
