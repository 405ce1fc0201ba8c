package cedrat.oracle.server;

import cedrat.oracle.state.NoDecisions;
import cedrat.oracle.state.StatusOracle;
import java.io.IOException;
import java.nio.file.Path;

/// An oracle for a command, which replays logs and asks nothing about rows.
final class ScratchOracle implements AutoCloseable {
    private static final int ROWS_LOG2 = 8;

    private final ScratchFile file;
    private final StatusOracle oracle;

    ScratchOracle() throws IOException {
        file = new ScratchFile(Path.of(System.getProperty("java.io.tmpdir")));
        oracle = new StatusOracle(
                ROWS_LOG2, new NoDecisions(), Runtime.getRuntime().maxMemory() / 4, file);
    }

    StatusOracle oracle() {
        return oracle;
    }

    @Override
    public void close() throws IOException {
        file.close();
    }
}
