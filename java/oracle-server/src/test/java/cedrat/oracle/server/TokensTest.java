package cedrat.oracle.server;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// The file of tokens, and the command that changes it.
@Timeout(120)
class TokensTest {
    @TempDir
    private Path folder;

    private Path file;

    @BeforeEach
    void name() {
        file = folder.resolve("tokens");
    }

    private AdminCommandsTest.Result run(String... arguments) {
        List<String> all = new ArrayList<>(List.of("token"));
        all.addAll(List.of(arguments));
        all.addAll(List.of("--tokens", file.toString()));
        return AdminCommandsTest.run(all.toArray(String[]::new));
    }

    /// Returns the name and the secret of a new token.
    private String[] add(String name) {
        AdminCommandsTest.Result added = run("add", name);
        assertEquals(0, added.code(), added.err());
        return added.out().strip().split(":");
    }

    private static byte[] secret(String[] token) {
        return token[1].getBytes(StandardCharsets.UTF_8);
    }

    @Test
    void fileHasNoSecretOfToken() throws Exception {
        String[] token = add("app");
        assertEquals("app", token[0]);
        assertEquals(43, token[1].length(), "256 bits");
        assertFalse(Files.readString(file).contains(token[1]));
        assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(file)));
        Tokens tokens = new Tokens(file);
        assertNotNull(tokens.find("app", secret(token)));
        assertNull(tokens.find("other", secret(token)));
        assertNull(tokens.find("app", secret(add("app"))), "the tokens were read before");
        assertNull(tokens.find("", new byte[0]));
        assertNull(tokens.find("app", new byte[100]));
    }

    @Test
    void changedFileIsReadAgain() throws Exception {
        String[] first = add("app");
        Tokens tokens = new Tokens(file);
        String[] second = add("app");
        assertTrue(tokens.refresh());
        assertNotNull(tokens.find("app", secret(first)));
        assertNotNull(tokens.find("app", secret(second)));
        assertEquals("token app removed 1\n", run("remove", "app", "--older").out());
        assertTrue(tokens.refresh());
        assertNull(tokens.find("app", secret(first)));
        assertNotNull(tokens.find("app", secret(second)));
        assertFalse(tokens.refresh());
        Files.writeString(file, "nonsense\n");
        assertTrue(assertThrows(IOException.class, tokens::refresh).getMessage().contains("tokens, line 1"));
        assertNotNull(tokens.find("app", secret(second)), "what was read before stays in use");
        assertFalse(tokens.refresh(), "the message comes once");
    }

    @Test
    void commandsKeepOtherLines() throws Exception {
        add("app");
        Files.writeString(file, Files.readString(file) + "# of the cleaner\n");
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r-----"));
        add("cleaner");
        AdminCommandsTest.Result list = run("list");
        assertTrue(list.out().matches("token app made \\d{4}-\\d\\d-\\d\\d\ntoken cleaner made .*\n"), list.out());
        assertEquals("token app removed 1\n", run("remove", "app").out());
        assertTrue(run("list").out().startsWith("token cleaner made "), "app is gone");
        assertTrue(Files.readString(file).contains("# of the cleaner\n"));
        assertEquals("rw-r-----", PosixFilePermissions.toString(Files.getPosixFilePermissions(file)));
    }

    @Test
    void failedCommandsChangeNothing() throws Exception {
        assertFails("does not exist", run("list"));
        assertFails("invalid name a:b", run("add", "a:b"));
        assertFalse(Files.exists(file));
        add("app");
        String before = Files.readString(file);
        assertFails("has none", run("remove", "other"));
        assertFails("no older one", run("remove", "app", "--older"));
        Path next = folder.resolve("tokens.new");
        Files.writeString(next, "");
        assertFails("another command changes it now", run("add", "late"));
        assertTrue(Files.exists(next), "it is the other command's");
        Files.delete(next);
        assertEquals(before, Files.readString(file));
        Files.writeString(file, before + "app 2026-01-01 x y\n");
        assertFails("tokens, line 3", run("add", "late"));
        assertFalse(Files.exists(next));
        assertEquals(Main.EXIT_USAGE, AdminCommandsTest.run("token").code());
        assertEquals(
                Main.EXIT_USAGE, AdminCommandsTest.run("token", "add", "app").code());
    }

    private static void assertFails(String problem, AdminCommandsTest.Result result) {
        assertEquals(Main.EXIT_CANNOT_START, result.code(), result.err());
        assertTrue(result.err().startsWith("cedrat-oracle: "), result.err());
        assertTrue(result.err().contains(problem), result.err());
    }
}
