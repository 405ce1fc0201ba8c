package cedrat.oracle.bench;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;

import org.junit.jupiter.api.Test;

class SharedHBaseTest {
    /// Nothing was started, and nothing has to be ended.
    @Test
    void unusedSharedHBaseCanBeClosed() {
        assertDoesNotThrow(() -> new SharedHBase().close());
    }
}
