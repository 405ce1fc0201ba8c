/// Protocol between clients and the status oracle, byte by byte (docs/formats/oracle-protocol.md), and the event
/// loops and buffers that both sides of it have in common.
@SuppressWarnings("module") // those that are allowed to use the transport are compiled later
module cedrat.oracle.protocol {
    requires io.netty.buffer;
    requires io.netty.common;
    requires io.netty.handler;
    requires io.netty.transport;
    requires io.netty.transport.classes.epoll;
    requires java.security.jgss;
    requires java.security.sasl;

    exports cedrat.oracle.authentication;
    exports cedrat.oracle.protocol;
    exports cedrat.oracle.tls;
    exports cedrat.oracle.transport to
            cedrat.oracle.client,
            cedrat.oracle.server;
}
