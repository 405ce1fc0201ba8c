package cedrat.oracle.state;

import java.util.ArrayList;
import java.util.List;

/// Decisions, to be replayed.
class Recorded implements Decisions {
    final List<java.util.function.Consumer<Decisions>> all = new ArrayList<>();

    @Override
    public void committed(long start, long commit, Rows rows) {
        Rows copy = new Rows();
        for (int at = 0; at < rows.count(); at++) {
            copy.add(rows.get(at));
        }
        all.add(to -> to.committed(start, commit, copy));
    }

    @Override
    public void wrote(Keys keys) {
        Keys copy = new Keys();
        for (int at = 0; at < keys.count(); at++) {
            copy.add(keys.table(at), keys.bytes(), keys.begin(at), keys.length(at));
        }
        all.add(to -> to.wrote(copy));
    }

    @Override
    public void aborted(long start) {
        all.add(to -> to.aborted(start));
    }

    @Override
    public void ended(long start) {
        all.add(to -> to.ended(start));
    }

    @Override
    public void forgotten(long start) {
        all.add(to -> to.forgotten(start));
    }

    @Override
    public void identified(long identity) {
        all.add(to -> to.identified(identity));
    }

    @Override
    public void used(long namespace) {
        all.add(to -> to.used(namespace));
    }

    @Override
    public void retired(long namespace) {
        all.add(to -> to.retired(namespace));
    }

    @Override
    public void pruned(long upTo) {
        all.add(to -> to.pruned(upTo));
    }
}
