package cedrat.oracle.server;

import cedrat.oracle.state.AbortReason;
import cedrat.oracle.state.Namespace;
import cedrat.oracle.state.StatusOracle;
import java.util.List;

/// Figures of the decide thread, read by that thread at one moment. Their readers work on this copy, so that
/// deciding costs a few additions to plain numbers, and nothing is shared.
///
/// @param aborts by the ordinal of their reason
/// @param tMax the newest commit timestamp that the conflict map has forgotten
/// @param outcomeBytes the memory for outcomes of transactions
/// @param spilled the number of outcomes that are in the scratch file, not in memory
/// @param spilledBytes the bytes of them in that file
/// @param spilledReads the number of reads from that file
/// @param leastSwept the namespaces with the lowest marks of sweeps, at most [#NAMESPACES_SHOWN]
/// @param limited how often a limit of an identity had no room, by the ordinal of its [Limits.Kind]
/// @param appended entries that the log was given
/// @param acknowledged entries that the log has acknowledged
record Reading(
        long begun,
        long committed,
        long ended,
        long[] aborts,
        long refusals,
        long newest,
        long tMax,
        long lowWaterMark,
        long open,
        long halfAborted,
        long halfCommitted,
        long outcomeBytes,
        long spilled,
        long spilledBytes,
        long spilledReads,
        long rowBytes,
        long keys,
        long sessions,
        long namespaces,
        List<Namespace> leastSwept,
        long appended,
        long acknowledged,
        long logBytes,
        long snapshotAge,
        long[] limited,
        Durations.Copy replies,
        Durations.Copy appends) {
    static final int NAMESPACES_SHOWN = 16;

    static Reading of(StatusOracle oracle, Sessions sessions, Persister persister, Accounts accounts) {
        AbortReason[] reasons = AbortReason.values();
        long[] aborts = new long[reasons.length];
        for (AbortReason reason : reasons) {
            aborts[reason.ordinal()] = oracle.aborts(reason);
        }
        return new Reading(
                oracle.begun(),
                oracle.committed(),
                oracle.ended(),
                aborts,
                persister.refusals(),
                oracle.newest(),
                oracle.forgottenTimestamp(),
                oracle.lowWaterMark(),
                oracle.open(),
                oracle.halfAborted(),
                oracle.halfCommitted(),
                oracle.transactionBytes(),
                oracle.spilledOutcomes(),
                oracle.spilledBytes(),
                oracle.spilledReads(),
                oracle.rowBytes(),
                oracle.keys(),
                sessions.count(),
                oracle.namespaces(),
                oracle.leastSwept(NAMESPACES_SHOWN),
                persister.appended(),
                persister.acknowledged(),
                persister.logBytes(),
                persister.snapshotAge(),
                accounts.limited(),
                persister.replyDurations().copy(),
                persister.appendDurations().copy());
    }
}
