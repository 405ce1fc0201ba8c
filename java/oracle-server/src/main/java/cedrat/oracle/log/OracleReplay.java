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
/// Which snapshot the log has to be kept from is for [SnapshotRule] to say.
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

    /// There are no more entries.
    ///
    /// @throws DamagedEntryException if the oracle could not be made from those that were there
    public void end() throws DamagedEntryException {
        if (rule.entries() > 0 && state != State.WHOLE) {
            throw new DamagedEntryException(
                    "the log lacks its first entry, and holds no complete snapshot: restore its directory from a copy");
        }
    }

    private void batch() throws DamagedEntryException {
        if (state == State.WAITING) {
            if (rule.entries() > 1 || reader.before() != 0) {
                return;
            }
            state = State.WHOLE;
        }
        if (reader.before() != oracle.newest()) {
            throw reader.damaged("an entry that follows timestamp " + reader.before() + " behind one that ends at "
                    + oracle.newest());
        }
        try {
            reader.tell(decisions);
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
