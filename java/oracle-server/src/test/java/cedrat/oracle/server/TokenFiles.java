package cedrat.oracle.server;

import cedrat.oracle.authentication.Credentials;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/// Files of the tokens of an oracle, of its roles, and of the token of each client, all of which tests change while
/// servers and clients run. For one thread at a time.
public final class TokenFiles {
    private static final String EVERYONE = "administrator token:*\n";

    private final Path folder;
    private final Path tokens;
    private final Path roles;

    /// Files in this folder for clients with these names, each with a token.
    public TokenFiles(Path folder, String... names) throws IOException {
        this.folder = Files.createDirectories(folder);
        tokens = folder.resolve("tokens");
        roles = folder.resolve("roles");
        unlimit();
        for (String name : names) {
            give(name, add(name));
        }
    }

    /// Returns the options of a server that starts now.
    public ServerOptions options(ServerOptions others) {
        try {
            return others.withAuthentication(
                            AuthenticationOptions.NONE.withTokens(tokens).withoutTls())
                    .withRoles(Roles.read(roles));
        } catch (IOException problem) {
            throw new IllegalStateException(problem);
        }
    }

    /// Returns the credentials of a client.
    public Credentials credentials(String name) {
        return Credentials.tokenWithoutTls(folder.resolve(name));
    }

    /// Adds a token of this name, and returns the line that its client needs.
    public String add(String name) throws IOException {
        return Tokens.add(tokens, name);
    }

    /// Removes the tokens of this name; all but the newest one if `isOlderOnly`.
    public void remove(String name, boolean isOlderOnly) throws IOException {
        Tokens.remove(tokens, name, isOlderOnly);
    }

    /// Gives a client this line. It uses it from its next connection on.
    public void give(String name, String line) throws IOException {
        write(folder.resolve(name), line + "\n");
    }

    /// Limits a client, as a line of roles does.
    public void limit(String name, String limits) throws IOException {
        write(roles, EVERYONE + "limits " + limits + " token:" + name + "\n");
    }

    /// Ends all limits.
    public void unlimit() throws IOException {
        write(roles, EVERYONE);
    }

    /// Replaces a file in one step.
    private static void write(Path file, String text) throws IOException {
        Path next = file.resolveSibling(file.getFileName() + ".next");
        Files.writeString(next, text);
        Files.move(next, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }
}
