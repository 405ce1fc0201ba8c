/// The status oracle's log in a directory of its own, kept by libcedrat within this process.
///
/// It calls the library through `java.lang.foreign`: start the JVM with
/// `--enable-native-access=cedrat.library,cedrat.oracle.log.embedded` (`ALL-UNNAMED` on the class path), and say
/// by `-Dcedrat.library=PATH` where the library is.
module cedrat.oracle.log.embedded {
    requires cedrat.library;
    requires transitive cedrat.oracle.log;

    exports cedrat.oracle.log.embedded;
}
