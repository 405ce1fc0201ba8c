/// What clients and the status oracle say to each other, byte by byte (docs/formats/oracle-protocol.md).
module cedrat.oracle.protocol {
    exports cedrat.oracle.protocol;
}
