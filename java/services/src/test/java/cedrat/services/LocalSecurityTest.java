package cedrat.services;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LocalSecurityTest {
    @TempDir
    private Path folder;

    private Map<String, String> files(Path of) throws IOException {
        Map<String, String> texts = new TreeMap<>();
        try (Stream<Path> files = Files.list(of)) {
            for (Path file :
                    files.filter(each -> !each.toString().endsWith(".p12")).toList()) {
                texts.put(file.getFileName().toString(), Files.readString(file));
            }
        }
        return texts;
    }

    @Test
    void onlyTheOwnerCanReadTheKeys() throws Exception {
        Path own = folder.resolve("security");
        List<String> options = new LocalSecurity(own).server();
        assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(own)));
        for (int at = 1; at < options.size(); at += 2) {
            assertTrue(Files.isRegularFile(Path.of(options.get(at))), options.toString());
        }
        Map<String, String> files = files(own);
        for (String name : List.of("administrator", "cleaner", "client", "oracle")) {
            assertTrue(files.get(name + ".key").startsWith("-----BEGIN PRIVATE KEY-----\n"), files.toString());
            assertEquals(2, files.get(name + ".pem").split("-----BEGIN CERTIFICATE-----", -1).length - 1);
        }
        assertTrue(files.get("zookeeper").matches("oracle:[0-9a-f]{32}\n"));
    }

    @Test
    void laterStartsFindTheSameKeys() throws Exception {
        Path own = folder.resolve("security");
        // A start that was interrupted has left something.
        Files.writeString(
                Files.createDirectories(folder.resolve("security.new")).resolve("keys.p12"), "half");
        new LocalSecurity(own).server();
        Map<String, String> first = files(own);
        new LocalSecurity(own).zooKeeper();
        assertEquals(first, files(own));
    }
}
