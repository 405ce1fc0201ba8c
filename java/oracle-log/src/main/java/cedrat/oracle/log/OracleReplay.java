package cedrat.oracle.log;

import cedrat.oracle.state.Decisions;
import cedrat.oracle.state.StatusOracle;

/// Tells an oracle that was just made what its log has kept.
public final class OracleReplay implements Log.Replay {
    private final EntryReader reader = new EntryReader();
    private final StatusOracle oracle;
    private final Decisions decisions;

    /// For this oracle, of which nothing was asked yet.
    public OracleReplay(StatusOracle oracle) {
        this.oracle = oracle;
        decisions = oracle.replay();
    }

    @Override
    public void entry(byte[] bytes, int from, int length) throws DamagedEntryException {
        reader.open(bytes, from, length);
        if (reader.before() != oracle.newest()) {
            throw new DamagedEntryException("an entry that follows timestamp " + reader.before()
                    + " behind one that ends at " + oracle.newest());
        }
        reader.tell(decisions);
        oracle.replayGivenOut(reader.newest());
    }
}
