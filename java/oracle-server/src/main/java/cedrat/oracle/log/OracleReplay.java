package cedrat.oracle.log;

import cedrat.oracle.state.Decisions;
import cedrat.oracle.state.Lifetime;
import cedrat.oracle.state.Remembered;
import cedrat.oracle.state.StatusOracle;

/// Tells an oracle that was just made what its log has kept: all from the first entry on, or, where older
/// entries have gone, from the first snapshot that is there as a whole.
///
/// ```text
///            first entry of all                      any entry that follows
///  ┌─▶ Waiting ─────────────────────────────────▶ Whole ◀──┐
///  │      │ first part of a snapshot                       │ last part
///  │      └────────────────────▶ Restoring ────────────────┘
///  │                                 │ ▲ first part of another
///  │                                 └─┘ (the oracle was stopped over this one)
/// ```
///
/// Waiting: entries are passed over. Restoring: transactions are known as far as the parts go, and decisions
/// on them, as well as the rows of all commits, are replayed. Whole: the oracle is what it was behind each
/// entry.
///
/// Which snapshot the log has to be kept from is for [SnapshotRule] to say. A log with a [LogMark] is refused if
/// its copy is incomplete, or its oracle has moved.
public final class OracleReplay implements Log.Replay {
    /// Bugs that tests plant, to see that they are found.
    enum Fault {
        NONE,
        FORGET_ABORTED,
        ABORT_OPEN,
        REUSE_STARTS
    }

    private enum State {
        WAITING,
        RESTORING,
        WHOLE
    }

    private final EntryReader reader = new EntryReader();
    private final SnapshotReader part = new SnapshotReader();
    private final StatusOracle oracle;
    private final Decisions decisions;
    private final Fault fault;
    private final SnapshotRule rule;
    private State state = State.WAITING;
    /// Entries that are no marks.
    private long entries;
    /// Whether a copy was begun and is not complete.
    private boolean isIncomplete;
    /// Present place of the log; `null` if it has not moved.
    private String movedTo;
    /// Whether forgotten transactions are remembered.
    private boolean keepsForgotten;
    private Remembered restoring;
    private long taken;
    private long position;
    private long end;

    /// For this oracle, of which nothing was asked yet.
    public OracleReplay(StatusOracle oracle) {
        this(oracle, new SnapshotRule(oracle.window(), Long.MAX_VALUE));
    }

    /// Replays into this oracle, which has served no request yet. The rule, which is new too, receives all entries
    /// and the snapshots among them.
    public OracleReplay(StatusOracle oracle, SnapshotRule rule) {
        this(oracle, rule, Fault.NONE);
    }

    OracleReplay(StatusOracle oracle, SnapshotRule rule, Fault fault) {
        this.oracle = oracle;
        this.rule = rule;
        this.fault = fault;
        decisions = oracle.replay();
    }

    /// The next entry: `length` bytes from `from` on.
    ///
    /// @throws DamagedEntryException if they are none, or do not follow what came before
    @Override
    public void entry(byte[] bytes, int from, int length) throws DamagedEntryException {
        rule.entry(length);
        try {
            if (LogMark.isMark(bytes, from, length)) {
                mark(LogMark.read(bytes, from, length));
                return;
            }
            if (movedTo != null) {
                throw new DamagedEntryException("an entry behind the mark of a log that has moved to " + movedTo);
            }
            entries++;
            if (SnapshotReader.isPart(bytes, from, length)) {
                part.open(bytes, from, length);
                part();
            } else {
                reader.open(bytes, from, length);
                batch();
            }
        } catch (DamagedEntryException damaged) {
            throw damaged.in("entry " + rule.entries() + " of the log");
        }
    }

    @Override
    public void restart() {
        oracle.restore(0, 0, 0); // as an oracle that has issued no timestamp
        rule.restart();
        state = State.WAITING;
        entries = 0;
        isIncomplete = false;
        movedTo = null;
    }

    /// There are no more entries.
    ///
    /// @throws DamagedEntryException if the oracle could not be made from those that were there
    public void end() throws DamagedEntryException {
        if (movedTo != null) {
            throw new DamagedEntryException(
                    "the oracle of this log has moved: start its servers with the log " + movedTo);
        }
        if (isIncomplete) {
            throw new DamagedEntryException("the log is an incomplete copy: repeat `cedrat-oracle migrate`");
        }
        if (rule.entries() > 0 && state != State.WHOLE) {
            throw new DamagedEntryException("the log lacks its first entry, and holds no complete snapshot: repeat "
                    + "`cedrat-oracle restore`, if it was interrupted; otherwise restore a backup in another place");
        }
    }

    /// Whether all entries so far make up the state of an oracle, which may have moved since.
    public boolean isWhole() {
        return state == State.WHOLE && !isIncomplete;
    }

    /// Remembers the outcomes of transactions that are forgotten from the next entry on.
    public void keepForgotten() {
        keepsForgotten = true;
    }

    private void mark(LogMark mark) {
        switch (mark.kind()) {
            case BEGUN -> isIncomplete = true;
            case COMPLETE -> isIncomplete = false;
            case MOVED -> movedTo = mark.text();
        }
    }

    private void batch() throws DamagedEntryException {
        if (state == State.WAITING) {
            if (entries > 1 || reader.before() != 0) {
                return;
            }
            state = State.WHOLE;
        }
        if (reader.before() != oracle.newest()) {
            throw reader.damaged("an entry that follows timestamp " + reader.before() + " behind one that ends at "
                    + oracle.newest());
        }
        try {
            reader.tell(keepsForgotten ? new KeepingForgotten(decisions) : decisions);
        } catch (IllegalArgumentException impossible) {
            throw reader.damaged(impossible.getMessage());
        }
        if (fault != Fault.REUSE_STARTS) {
            oracle.replayGivenOut(reader.newest());
        }
    }

    private Remembered faulty(Remembered restoring) {
        return new Remembered() {
            @Override
            public void identified(long identity) {
                restoring.identified(identity);
            }

            @Override
            public void restored(long generation) {
                restoring.restored(generation);
            }

            @Override
            public void used(long namespace) {
                restoring.used(namespace);
            }

            @Override
            public void pruned(long upTo) {
                restoring.pruned(upTo);
            }

            @Override
            public void open(long start, long position) {
                if (fault == Fault.ABORT_OPEN) {
                    restoring.aborted(start);
                } else {
                    restoring.open(start, position);
                }
            }

            @Override
            public void committed(Lifetime lifetime) {
                restoring.committed(lifetime);
            }

            @Override
            public void aborted(long start) {
                if (fault != Fault.FORGET_ABORTED) {
                    restoring.aborted(start);
                }
            }
        };
    }

    /// Applies the facts of a snapshot, which are decisions on no transaction; again where they are known.
    private final class Facts implements Remembered {
        @Override
        public void identified(long identity) {
            decisions.identified(identity);
        }

        @Override
        public void restored(long generation) {
            oracle.beginGeneration(generation);
        }

        @Override
        public void used(long namespace) {
            decisions.used(namespace);
        }

        @Override
        public void pruned(long upTo) {
            decisions.pruned(upTo);
        }

        @Override
        public void open(long start, long at) {
            // is known
        }

        @Override
        public void committed(Lifetime lifetime) {
            // is known
        }

        @Override
        public void aborted(long start) {
            // is known
        }
    }

    private void part() throws DamagedEntryException {
        if (part.isFirst() && state != State.WHOLE) {
            Remembered restored = oracle.restore(part.taken(), part.position(), part.committed());
            restoring = fault == Fault.NONE ? restored : faulty(restored);
            state = State.RESTORING;
        }
        if (state == State.WAITING) {
            return; // the first part of this one is gone
        }
        boolean isNow = part.newest() == oracle.newest();
        boolean isBegunNow = part.taken() == oracle.newest() && part.position() == oracle.position();
        if (!isNow || part.isFirst() && !isBegunNow) {
            throw part.damaged("a snapshot begun at " + part.taken() + " behind " + part.position()
                    + " rows, of which a part was written at " + part.newest() + ", in a log that is at "
                    + oracle.newest() + " and " + oracle.position());
        }
        if (part.isFirst()) {
            taken = part.taken();
            position = part.position();
            rule.begun(position);
        } else if (part.taken() != taken || part.position() != position || part.from() != end) {
            throw part.damaged("a part from " + part.from() + " of a snapshot begun at " + part.taken()
                    + " behind one up to " + end + " of one begun at " + taken);
        }
        end = part.end();
        try {
            if (state == State.RESTORING) {
                part.tell(restoring);
                oracle.restored(end);
            } else if (part.isFirst()) {
                // Its transactions are known. Facts may not be: entries without a timestamp may have gone from the
                // beginning
                // of a log whose first entry follows timestamp 0 nevertheless.
                part.tell(new Facts());
            }
        } catch (IllegalArgumentException impossible) {
            throw part.damaged(impossible.getMessage());
        }
        if (part.isLast()) {
            state = State.WHOLE;
            rule.ended();
        }
    }
}
