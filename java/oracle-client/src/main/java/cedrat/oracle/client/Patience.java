package cedrat.oracle.client;

import io.netty.channel.EventLoop;
import io.netty.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.function.Consumer;

/// Time for which requests wait without a server: those that have waited for as long as the client's patience fail, and
/// no outcome is guessed (C3 of [Pipeline]). Each request waits that long, also if others have waited before it: a
/// caller that tries again immediately does not fail sooner.
///
/// **Threads:** that of its event loop; any may call [#noAnswer].
final class Patience<T> {
    /// Number of equal parts of the patience. Requests whose time ends within the same part fail together.
    private static final int PARTS = 64;

    private final EventLoop loop;
    private final ClientOptions options;
    private final Slots<T> slots;
    private final Consumer<Consumer<Slot<T>>> forEach;
    private final BiConsumer<Slot<T>, OracleException> fail;
    /// `null` while a server answers. Written by the event loop's thread.
    private volatile Outage outage;
    /// Reason why the newest connection was lost or could not be made.
    private volatile String lossReason = "the client has just been opened";
    /// Fails requests that have waited for too long; `null` if none waits.
    private Future<?> timer;
    private boolean isStopped;

    /// For requests in `slots`: `forEach` visits them, and `fail` ends one.
    Patience(
            EventLoop loop,
            ClientOptions options,
            Slots<T> slots,
            Consumer<Consumer<Slot<T>>> forEach,
            BiConsumer<Slot<T>, OracleException> fail) {
        this.loop = loop;
        this.options = options;
        this.slots = slots;
        this.forEach = forEach;
        this.fail = fail;
    }

    /// A request was made.
    void asked(Slot<T> slot) {
        slot.outage = outage;
        if (slot.outage != null) {
            slot.askedNanos = System.nanoTime();
            awaitServer();
        }
    }

    /// No server answers, for this reason.
    void lost(String reason) {
        lossReason = reason;
    }

    /// No server answers from now on.
    void beginOutage() {
        if (outage == null) {
            outage = Outage.now();
            if (slots.outstanding() > 0) {
                awaitServer();
            }
        }
    }

    /// A server answers.
    void endOutage() {
        outage = null;
        cancelTimer();
    }

    /// No request fails any more.
    void stop() {
        isStopped = true;
        cancelTimer();
    }

    private void cancelTimer() {
        if (timer != null) {
            timer.cancel(false);
            timer = null;
        }
    }

    private void awaitServer() {
        if (timer == null) {
            startTimer(options.patience().toNanos());
        }
    }

    private void startTimer(long nanos) {
        timer = loop.schedule(this::end, nanos, TimeUnit.NANOSECONDS);
    }

    private void end() {
        timer = null;
        if (outage == null) {
            return;
        }
        long patience = options.patience().toNanos();
        long now = System.nanoTime();
        long[] least = {Long.MAX_VALUE};
        forEach.accept(slot -> {
            long left = patience - (now - (slot.outage == outage ? slot.askedNanos : outage.nanos));
            if (left <= 0) {
                String text = noAnswer() + "; whether the request took effect is unknown";
                fail.accept(slot, new UnavailableException(text, null));
            } else {
                least[0] = Math.min(least[0], left);
            }
        });
        if (least[0] < Long.MAX_VALUE && !isStopped) {
            cancelTimer(); // of a request that a listener has made just now
            // Requests that were sent shortly one after the other fail together.
            startTimer(Math.max(least[0], patience / PARTS));
        }
    }

    /// Returns the first half of an error message: for how long a request has waited, and for what.
    /// **Threads:** any may call.
    String noAnswer() {
        Outage now = outage;
        String waited = options.patience().toMillis() + " ms";
        return now == null
                ? "the oracle at " + options.where() + " has not answered for " + waited
                : "no oracle at " + options.where() + " could be reached since " + now.since + " (" + lossReason
                        + "), and the request has waited for " + waited;
    }
}
