package cedrat.oracle.client;

import cedrat.oracle.protocol.Protocol;
import java.util.Objects;

/// Outcome of a transaction: its [#kind], with the commit timestamp or the reason of the abort.
///
/// ```java
/// switch (outcome.kind()) {
///     case COMMITTED: return outcome.commitTimestamp();
///     case ABORTED: throw new IllegalStateException("aborted: " + outcome.abortReason());
///     …
/// }
/// ```
public final class Outcome {
    /// Kind of an outcome. All but [#OPEN] are final.
    public enum Kind {
        /// It has committed, at [Outcome#commitTimestamp].
        COMMITTED,
        /// It has aborted, for [Outcome#abortReason], and will never commit.
        ABORTED,
        /// It is open. Should it commit, then later than any transaction began that was there when this was said.
        OPEN,
        /// The oracle has forgotten it: it has ended, and was cleaned up. Its rows, read again, show its outcome.
        UNKNOWN
    }

    /// Answer of Algorithm 4.
    public enum Visibility {
        /// It had committed when the reader began.
        TRUE,
        /// It had not.
        FALSE,
        /// Read the row again.
        RETRY
    }

    private static final Outcome OPEN = new Outcome(Kind.OPEN, null, null);
    private static final Outcome UNKNOWN = new Outcome(Kind.UNKNOWN, null, null);

    private final Kind kind;
    /// `null` unless it has committed.
    private final CommitTimestamp commit;
    /// `null` unless it has aborted.
    private final AbortReason reason;

    private Outcome(Kind kind, CommitTimestamp commit, AbortReason reason) {
        this.kind = kind;
        this.commit = commit;
        this.reason = reason;
    }

    /// The outcome of a transaction that has committed.
    public static Outcome committed(CommitTimestamp at) {
        return new Outcome(Kind.COMMITTED, Objects.requireNonNull(at), null);
    }

    /// The outcome of a transaction that has aborted.
    public static Outcome aborted(AbortReason reason) {
        return new Outcome(Kind.ABORTED, null, Objects.requireNonNull(reason));
    }

    /// The outcome of a transaction that is open.
    public static Outcome open() {
        return OPEN;
    }

    /// The outcome of a transaction that the oracle has forgotten.
    public static Outcome unknown() {
        return UNKNOWN;
    }

    /// Returns the kind of the outcome.
    public Kind kind() {
        return kind;
    }

    /// Returns the commit timestamp.
    ///
    /// @throws IllegalStateException if it has not committed
    public CommitTimestamp commitTimestamp() {
        if (kind != Kind.COMMITTED) {
            throw new IllegalStateException("the outcome " + this + " has no commit timestamp: compare its kind first");
        }
        return commit;
    }

    /// Returns the reason of the abort.
    ///
    /// @throws IllegalStateException if it has not aborted
    public AbortReason abortReason() {
        if (kind != Kind.ABORTED) {
            throw new IllegalStateException(
                    "the outcome " + this + " has no reason of an abort: compare its kind first");
        }
        return reason;
    }

    /// Whether a transaction that began then sees what this one wrote.
    public Visibility visibleTo(StartTimestamp reader) {
        if (kind == Kind.UNKNOWN) {
            return Visibility.RETRY;
        }
        return kind == Kind.COMMITTED && commit.isBefore(reader) ? Visibility.TRUE : Visibility.FALSE;
    }

    /// From the protocol's number.
    static Outcome of(long number) {
        if (number > 0) {
            return committed(new CommitTimestamp(number));
        }
        if (Protocol.isAborted(number)) {
            return aborted(AbortReason.of(number));
        }
        return number == Protocol.OPEN ? OPEN : UNKNOWN;
    }

    /// All aborts are equal, whatever their reason: a server that has restarted gives the same outcome without a
    /// reason.
    @Override
    public boolean equals(Object other) {
        return other instanceof Outcome
                && kind == ((Outcome) other).kind
                && Objects.equals(commit, ((Outcome) other).commit);
    }

    @Override
    public int hashCode() {
        return Objects.hash(kind, commit);
    }

    @Override
    public String toString() {
        return kind == Kind.COMMITTED ? kind + " " + commit : kind == Kind.ABORTED ? kind + " " + reason : "" + kind;
    }
}
