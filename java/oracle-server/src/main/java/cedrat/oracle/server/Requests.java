package cedrat.oracle.server;

import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.protocol.ProtocolException;
import cedrat.oracle.protocol.RequestReader;
import cedrat.oracle.state.Rows;
import cedrat.oracle.state.StatusOracle;
import cedrat.oracle.transport.Input;

/// The next requests in the input of a connection, in groups ([CommitGroup]).
///
/// Reused for one connection after the other.
final class Requests {
    private static final int COUNT_MAX = CommitGroup.COUNT_MAX;

    private final RequestReader[] readers = new RequestReader[COUNT_MAX];
    private final CommitGroup commits;
    private final int[] lengths = new int[COUNT_MAX];
    private int count;
    private int at = -1;
    /// Error in the last request; `null` if there is none.
    private ProtocolException refused;

    /// Requests of `rowsMax` rows at most, for this oracle.
    Requests(StatusOracle oracle, int rowsMax) {
        commits = new CommitGroup(oracle);
        for (int each = 0; each < COUNT_MAX; each++) {
            readers[each] = new RequestReader(rowsMax);
        }
    }

    /// Forgets what was opened: it may be another's, or may have moved.
    void clear() {
        count = 0;
        at = -1;
        refused = null;
    }

    /// Goes on to the next request. Returns its length; 0 if not all of it is there yet.
    ///
    /// @throws ProtocolException if it is none; [#reader] then knows the number of who has asked, if anybody
    ///     does
    int next(Input input) throws ProtocolException {
        if (++at >= count) {
            open(input);
        }
        if (count == 0) {
            return 0;
        }
        if (at == count - 1 && refused != null) {
            throw refused;
        }
        return lengths[at];
    }

    private void open(Input input) {
        clear();
        at = 0;
        byte[] bytes = input.bytes();
        int from = input.from();
        while (count < COUNT_MAX && refused == null) {
            try {
                int length = readers[count].next(bytes, from, input.end());
                if (length == 0) {
                    return;
                }
                if (readers[count].kind() == Protocol.COMMIT) {
                    commits.expect(count, readers[count]);
                }
                lengths[count] = length;
                from += length;
            } catch (ProtocolException wrong) {
                refused = wrong;
            }
            count++;
        }
    }

    /// The present request.
    RequestReader reader() {
        return readers[at];
    }

    /// The rows that it has written, if it is a commit.
    Rows writes() {
        return commits.writes(at);
    }

    /// The rows that it has read.
    Rows reads() {
        return commits.reads(at);
    }
}
