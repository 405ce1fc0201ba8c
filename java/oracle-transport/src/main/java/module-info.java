/// Event loops and buffers that server, client and benchmarks of the status oracle have in common.
module cedrat.oracle.transport {
    requires transitive cedrat.oracle.protocol;
    requires transitive io.netty.buffer;
    requires transitive io.netty.common;
    requires transitive io.netty.transport;
    requires io.netty.transport.classes.epoll;

    exports cedrat.oracle.transport;
}
