package cedrat.oracle.client;

import cedrat.oracle.protocol.Protocol;

/// Outcome of a transaction. All but [Open] are final.
public sealed interface Outcome {
    /// It has committed.
    record Committed(CommitTimestamp at) implements Outcome {}

    /// The transaction has aborted, and will never commit. All aborts are equal, whatever their reason: a
    /// server that has restarted gives the same outcome without a reason.
    record Aborted(AbortReason reason) implements Outcome {
        @Override
        public boolean equals(Object other) {
            return other instanceof Aborted;
        }

        @Override
        public int hashCode() {
            return Aborted.class.hashCode();
        }
    }

    /// It is open. Should it commit, then later than any transaction began that was there when this was said.
    record Open() implements Outcome {}

    /// The oracle has forgotten it: it has ended, and was cleaned up. Its rows, read again, show its outcome.
    record Unknown() implements Outcome {}

    /// Answer of Algorithm 4.
    enum Visibility {
        /// It had committed when the reader began.
        TRUE,
        /// It had not.
        FALSE,
        /// Read the row again.
        RETRY
    }

    /// Whether a transaction that began then sees what this one wrote.
    default Visibility visibleTo(StartTimestamp reader) {
        return switch (this) {
            case Committed committed -> committed.at.isBefore(reader) ? Visibility.TRUE : Visibility.FALSE;
            case Aborted _, Open _ -> Visibility.FALSE;
            case Unknown _ -> Visibility.RETRY;
        };
    }

    /// From the protocol's number.
    static Outcome of(long number) {
        if (number > 0) {
            return new Committed(new CommitTimestamp(number));
        }
        if (Protocol.isAborted(number)) {
            return new Aborted(AbortReason.of(number));
        }
        return number == Protocol.OPEN ? new Open() : new Unknown();
    }
}
