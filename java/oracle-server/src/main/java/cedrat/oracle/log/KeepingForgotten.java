package cedrat.oracle.log;

import cedrat.oracle.state.Decisions;
import cedrat.oracle.state.Keys;
import cedrat.oracle.state.Rows;

/// Passes on decisions, except that transactions are forgotten.
record KeepingForgotten(Decisions to) implements Decisions {
    @Override
    public void committed(long start, long commit, Rows rows) {
        to.committed(start, commit, rows);
    }

    @Override
    public void wrote(Keys keys) {
        to.wrote(keys);
    }

    @Override
    public void aborted(long start) {
        to.aborted(start);
    }

    @Override
    public void ended(long start) {
        to.ended(start);
    }

    @Override
    public void forgotten(long start) {
        // is remembered
    }

    @Override
    public void identified(long identity) {
        to.identified(identity);
    }

    @Override
    public void used(long namespace) {
        to.used(namespace);
    }

    @Override
    public void retired(long namespace) {
        to.retired(namespace);
    }

    @Override
    public void pruned(long upTo) {
        to.pruned(upTo);
    }
}
