package cedrat.oracle.hbase;

import cedrat.oracle.tables.ClassVersions;
import java.io.IOException;
import org.junit.jupiter.api.Test;

/// Programs on JDK 11 embed the tables of HBase, its client among what they need.
class OldJdkTest {
    @Test
    void dependenciesLoadOnJdk11() throws IOException {
        ClassVersions.checkJdk11();
    }
}
