/// Protocol between clients and the status oracle, byte by byte (docs/formats/oracle-protocol.md).
module cedrat.oracle.protocol {
    exports cedrat.oracle.protocol;
}
