package cedrat.oracle.bench.omid;

import cedrat.oracle.bench.Connection;
import cedrat.oracle.bench.Load;
import cedrat.oracle.bench.Peer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.LongConsumer;
import org.apache.omid.tso.client.AbortException;
import org.apache.omid.tso.client.CellId;
import org.apache.omid.tso.client.OmidClientConfiguration;
import org.apache.omid.tso.client.TSOClient;
import org.apache.omid.tso.client.TSOFuture;

/// Apache Omid, through its client library.
public final class OmidPeer implements Peer {
    /// A client that has not connected.
    public OmidPeer() {}

    @Override
    public Connection connect(InetSocketAddress server, int outstandingMax, Load load)
            throws IOException, InterruptedException {
        OmidClientConfiguration configuration = new OmidClientConfiguration();
        configuration.setConnectionString(server.getHostString() + ":" + server.getPort());
        return new Session(TSOClient.newInstance(configuration), load);
    }

    /// Answers come on a thread of Omid's; the load lives on one of ours.
    private static final class Session implements Connection {
        private final ExecutorService thread = Executors.newSingleThreadExecutor();
        private final TSOClient client;
        private final Load load;

        Session(TSOClient client, Load load) {
            this.client = client;
            this.load = load;
        }

        @Override
        public void execute(Runnable work) {
            thread.execute(work);
        }

        @Override
        public void begin(int worker) {
            hear(worker, client.getNewStartTimestamp(), start -> load.begun(worker, start));
        }

        @Override
        public void commit(int worker, long start, long[] rows, int count) {
            Set<CellId> cells = HashSet.newHashSet(count);
            for (int at = 0; at < count; at++) {
                cells.add(new Cell(rows[at]));
            }
            hear(worker, client.commit(start, cells), commit -> load.decided(worker, commit));
        }

        private void hear(int worker, TSOFuture<Long> answer, LongConsumer answered) {
            answer.addListener(
                    () -> {
                        try {
                            answered.accept(answer.get());
                        } catch (ExecutionException failed) {
                            if (failed.getCause() instanceof AbortException) {
                                load.decided(worker, Load.ABORTED);
                            } else {
                                load.failed(worker, failed.getCause().toString());
                            }
                        } catch (InterruptedException interrupted) {
                            Thread.currentThread().interrupt();
                        }
                    },
                    thread);
        }

        @Override
        public void close() {
            client.close();
            thread.shutdown();
        }
    }

    /// A row, as Omid sees one when conflicts are found by cells.
    private record Cell(long id) implements CellId {
        @Override
        public long getCellId() {
            return id;
        }

        @Override
        public long getTableId() {
            return 1;
        }

        @Override
        public long getRowId() {
            return id;
        }
    }
}
