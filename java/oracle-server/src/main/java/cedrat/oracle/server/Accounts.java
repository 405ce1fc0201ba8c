package cedrat.oracle.server;

import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// The accounts of identities with connections. Lives on the decide thread.
///
/// - D8  An identity has no more connections than its limit: one too many is refused. A connection counts until it is
///   closed, or until another one of its session has replaced it. If its requests without an
///   answer, or in a second, have reached their limit, the next frame waits; a batch that was begun below the limit
///   is decided whole, and counts as its requests. The bytes of waiting requests exceed their limit by one read of
///   each connection at most. What waits delays no other identity.
final class Accounts {
    private static final Logger RECORDS = LoggerFactory.getLogger(Accounts.class);

    private final LongSupplier nanos;
    private final Map<String, Account> byName = new HashMap<>();
    /// Accounts with held connections.
    private final Set<Account> holding = new LinkedHashSet<>();
    private final long[] limited = new long[Limits.Kind.values().length];
    private final Seldom records = new Seldom();

    /// Accounts by this clock, which is `System.nanoTime` except for tests.
    Accounts(LongSupplier nanos) {
        this.nanos = nanos;
    }

    /// Returns how often each limit had no room, by the ordinal of its kind.
    long[] limited() {
        return limited.clone();
    }

    /// Admits a connection to the account of its client. It may take the place of another one of the same session, and
    /// that one [#leave]s then.
    ///
    /// @return the exhausted limit; `null` if the connection is admitted
    Limits.Kind enter(Connection connection, String name, Limits limits, Connection replaced) {
        Account account = byName.computeIfAbsent(name, of -> new Account(of, nanos.getAsLong()));
        account.limits = limits;
        boolean takesPlace = replaced != null && replaced.account == account && !replaced.hasLeft;
        if (account.connections - (takesPlace ? 1 : 0) >= limits.connections()) {
            return refused(account, Limits.Kind.CONNECTIONS);
        }
        if (!account.takeHello(now(account))) {
            return refused(account, Limits.Kind.RATE);
        }
        account.connections++;
        connection.account = account;
        return null;
    }

    private Limits.Kind refused(Account account, Limits.Kind limit) {
        count(account, limit);
        return limit;
    }

    /// The connection is closed, or replaced. It counts no more, except for its requests without an answer. A
    /// second call does nothing.
    void leave(Connection connection) {
        Account account = connection.account;
        if (account == null || connection.hasLeft) {
            return;
        }
        connection.hasLeft = true;
        account.connections--;
        account.bytes -= connection.countedBytes;
        connection.countedBytes = 0;
        account.held.remove(connection);
        if (account.held.isEmpty()) {
            holding.remove(account);
        }
        account.paused.remove(connection);
        if (account.turn == connection) {
            account.turn = null;
        }
        resumeReading(account);
    }

    /// Forgets accounts that are as new ones.
    void forgetUnused() {
        if (!byName.isEmpty()) {
            long now = nanos.getAsLong();
            byName.values().removeIf(account -> account.isUnused(now));
        }
    }

    /// Returns the number of accounts.
    int count() {
        return byName.size();
    }

    // ---- requests ---------------------------------------------------------------------------------------------------

    /// Whether the limits have room for another request of this connection. If not, it is held until they have.
    boolean holds(Connection connection) {
        Account account = connection.account;
        if (account == null) {
            return false;
        }
        Limits.Kind exhausted = account.exhausted(now(account));
        if (exhausted == null) {
            return false;
        }
        count(account, exhausted);
        account.held.add(connection);
        holding.add(account);
        return true;
    }

    /// Counts so many requests that were decided.
    void decided(Connection connection, int count) {
        if (connection.account != null) {
            connection.account.take(count, now(connection.account));
        }
    }

    /// The clock is asked only for accounts with a rate.
    private long now(Account account) {
        return account.limits.rate() < Integer.MAX_VALUE ? nanos.getAsLong() : 0;
    }

    /// Whether a connection is held.
    boolean hasHeld() {
        return !holding.isEmpty();
    }

    /// Has connections decided for whose requests there is room again. Returns the nanoseconds after which a rate has
    /// room for more, or 0 if none is awaited.
    long resume(Consumer<Connection> decide) {
        long wait = 0;
        for (Account account : holding.toArray(Account[]::new)) {
            LinkedHashSet<Connection> held = account.held;
            Limits.Kind exhausted = account.exhausted(now(account));
            for (int count = held.size(); count > 0 && exhausted == null && !held.isEmpty(); count--) {
                decide.accept(held.removeFirst());
                exhausted = account.exhausted(now(account));
            }
            if (held.isEmpty()) {
                holding.remove(account);
            } else if (exhausted == Limits.Kind.RATE) {
                long until = account.nanosUntilRate(now(account));
                wait = wait == 0 ? until : Math.min(wait, until);
            }
        }
        return wait;
    }

    // ---- bytes ------------------------------------------------------------------------------------------------------

    /// Counts the input of a connection that waits to be decided, and stops or starts reading from connections of the
    /// account.
    ///
    /// @param hasDecided whether a request of it was decided meanwhile
    void settle(Connection connection, boolean hasDecided) {
        Account account = connection.account;
        if (account == null || connection.hasLeft) {
            return;
        }
        int waiting = connection.input.length();
        account.bytes += waiting - connection.countedBytes;
        connection.countedBytes = waiting;
        if (account.turn == connection && hasDecided) {
            account.turn = null;
        }
        if (account.bytes > account.limits.bytes() && waiting > 0 && account.turn != connection && !connection.paused) {
            count(account, Limits.Kind.BYTES);
            connection.pause(true);
            account.paused.add(connection);
        }
        resumeReading(account);
    }

    private static void resumeReading(Account account) {
        while (!account.paused.isEmpty() && account.bytes <= account.limits.bytes()) {
            account.paused.removeFirst().pause(false);
        }
        if (account.turn == null && !account.paused.isEmpty()) {
            account.turn = account.paused.removeFirst();
            account.turn.pause(false);
        }
    }

    private void count(Account account, Limits.Kind kind) {
        limited[kind.ordinal()]++;
        if (records.isDue()) {
            RECORDS.atWarn()
                    .addKeyValue("client", account.name)
                    .addKeyValue("limit", kind)
                    .log("a client is at a limit of --roles");
        }
    }
}
