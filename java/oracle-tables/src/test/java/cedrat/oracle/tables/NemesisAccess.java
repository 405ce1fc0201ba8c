package cedrat.oracle.tables;

import cedrat.oracle.authentication.Credentials;
import cedrat.oracle.server.ServerOptions;
import cedrat.oracle.server.TokenFiles;
import cedrat.oracle.server.cluster.Journal;
import java.io.IOException;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Optional;
import java.util.Set;
import java.util.random.RandomGenerator;

/// Tokens and limits of the clients of a [NemesisWorld], and their faults: tokens that are exchanged, removed, or
/// spoilt at the client, and limits that are reached. For one thread at a time, but for [#credentials].
final class NemesisAccess {
    private static final String KEEPER = "keeper";
    private static final String FOUNDER = "founder";
    private static final String[] CLIENTS = {"even", "odd"};
    private static final String[] LIMITS = {"connections=4", "outstanding=1", "rate=100", "bytes=100"};

    /// `null` if every client may do all.
    private final TokenFiles files;
    private final Journal journal;
    /// Names of clients that cannot authenticate themselves now.
    private final Set<String> refused = new HashSet<>();
    private volatile boolean isFaulty;
    private int count;

    private NemesisAccess(TokenFiles files, Journal journal) {
        this.files = files;
        this.journal = journal;
    }

    /// No authentication.
    static NemesisAccess none() {
        return new NemesisAccess(null, null);
    }

    /// Authentication by tokens in files of this folder.
    static NemesisAccess byTokens(Path folder, Journal journal) throws IOException {
        return new NemesisAccess(new TokenFiles(folder, FOUNDER, KEEPER, CLIENTS[0], CLIENTS[1]), journal);
    }

    /// Returns the options of a server that starts now.
    ServerOptions options(ServerOptions others) {
        return files == null ? others : files.options(others);
    }

    /// Returns the credentials of the client of this number. **Threads:** any may call.
    Optional<Credentials> credentials(int number) {
        return credentials(CLIENTS[number % CLIENTS.length]);
    }

    /// Returns the credentials of what keeps tables.
    Optional<Credentials> ofKeeper() {
        return credentials(KEEPER);
    }

    /// Returns the credentials of clients that meet no faults.
    Optional<Credentials> ofFounder() {
        return credentials(FOUNDER);
    }

    private Optional<Credentials> credentials(String name) {
        return files == null ? Optional.empty() : Optional.of(files.credentials(name));
    }

    /// Whether clients may be refused, or were just before. **Threads:** any may call.
    boolean isFaulty() {
        return isFaulty;
    }

    /// Injects a fault.
    void inject(RandomGenerator random, NemesisServers servers) throws IOException {
        int drawn = random.nextInt(8);
        String name = CLIENTS[random.nextInt(CLIENTS.length)];
        String limit = LIMITS[random.nextInt(LIMITS.length)];
        if (files == null) {
            return;
        }
        count++;
        journal.record("fault " + drawn + " of the token of " + name);
        isFaulty = true;
        switch (drawn) {
            case 0, 1 -> exchange(name, servers);
            case 2 -> exchange(KEEPER, servers);
            case 3 -> remove(name);
            case 4 -> spoil(name);
            case 5, 6 -> files.limit(name, limit);
            default -> restore(servers);
        }
        servers.refresh();
    }

    /// Gives a client a new token, which servers know before it does, and removes the others.
    private void exchange(String name, NemesisServers servers) throws IOException {
        String line = files.add(name);
        servers.refresh();
        files.give(name, line);
        files.remove(name, true);
        refused.remove(name);
    }

    private void remove(String name) throws IOException {
        files.remove(name, false);
        refused.add(name);
    }

    private void spoil(String name) throws IOException {
        files.give(name, name + ":spoilt");
        refused.add(name);
    }

    private void restore(NemesisServers servers) throws IOException {
        files.unlimit();
        for (String name : Set.copyOf(refused)) {
            exchange(name, servers);
        }
    }

    /// Ends all faults. Connections keep the limits that they were made with.
    void heal(NemesisServers servers) throws IOException {
        if (files != null) {
            restore(servers);
            servers.refresh();
        }
    }

    /// Returns the number of faults.
    @Override
    public String toString() {
        return files == null ? "no tokens" : count + " faults of tokens and limits";
    }
}
