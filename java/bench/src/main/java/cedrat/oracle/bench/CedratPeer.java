package cedrat.oracle.bench;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.ClientThreads;
import cedrat.oracle.client.OracleException;
import cedrat.oracle.client.Pipeline;
import cedrat.oracle.client.Replies;
import cedrat.oracle.protocol.Protocol;
import java.net.InetSocketAddress;

/// The status oracle, through its client library. All connections of a process share one thread.
final class CedratPeer implements Peer {
    private final ClientThreads threads = new ClientThreads(1);

    CedratPeer() {}

    @Override
    public Connection connect(InetSocketAddress server, int outstandingMax, Load load) {
        Replies<Integer> answers = new Replies<>() {
            @Override
            public void begun(Integer worker, long start) {
                load.begun(worker, start);
            }

            @Override
            public void decided(Integer worker, long start, long outcome) {
                load.decided(worker, Protocol.isAborted(outcome) ? Load.ABORTED : outcome);
            }

            @Override
            public void outcomes(Integer worker, long[] outcomes) {
                load.wrong("an answer without a request");
            }

            @Override
            public void number(Integer worker, long number) {
                load.wrong("an answer without a request");
            }

            @Override
            public void failed(Integer worker, OracleException why) {
                load.failed(worker, why.toString());
            }
        };
        ClientOptions options = ClientOptions.of(server).withOutstandingMax(outstandingMax + 16);
        return new Session(threads.open(options, answers), outstandingMax);
    }

    private static final class Session implements Connection {
        private final Pipeline<Integer> pipeline;
        /// Tags; made once, for a number above 127 would be made for each request.
        private final Integer[] workers;

        Session(Pipeline<Integer> pipeline, int workers) {
            this.pipeline = pipeline;
            this.workers = new Integer[workers];
            for (int worker = 0; worker < workers; worker++) {
                this.workers[worker] = worker;
            }
        }

        @Override
        public void execute(Runnable work) {
            pipeline.execute(work);
        }

        @Override
        public void begin(int worker) {
            pipeline.begin(workers[worker]);
        }

        @Override
        public void commit(int worker, long start, long[] rows, int count) {
            pipeline.commit(workers[worker], start, rows, count);
        }

        @Override
        public void cleaned(long start) {
            pipeline.cleaned(start);
        }

        @Override
        public long frames() {
            return pipeline.frames();
        }

        @Override
        public void close() {
            pipeline.close();
        }
    }
}
