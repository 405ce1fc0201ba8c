package cedrat.oracle.bench;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;

import org.junit.jupiter.api.Test;

class CommitTableTest {
    /// Nothing was started, and nothing has to be ended.
    @Test
    void unusedCommitTableCanBeClosed() {
        assertDoesNotThrow(() -> new CommitTable().close());
    }
}
