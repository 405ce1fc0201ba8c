package cedrat.persist.backup;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.View;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// E24.1, E24.3, E24.4: encrypted stores of objects.
class EncryptionTest {
    private static final String TEXT = "a text that no file of an encrypted store has";

    @TempDir
    Path folder;

    private static byte[] key(int of) {
        byte[] key = new byte[32];
        Arrays.fill(key, (byte) of);
        return key;
    }

    private StoreOptions options() {
        return new StoreOptions().archive(folder.resolve("archive"));
    }

    private static void assertEncrypted(Path folder) throws IOException {
        List<Path> files;
        try (Stream<Path> all = Files.walk(folder)) {
            files = all.filter(Files::isRegularFile).toList();
        }
        assertTrue(files.stream().anyMatch(file -> file.endsWith("key")), files::toString);
        for (Path file : files) {
            String bytes = new String(Files.readAllBytes(file), StandardCharsets.ISO_8859_1);
            assertFalse(bytes.contains(TEXT), () -> "E24.1: " + file);
        }
    }

    private static void assertRefused(Path store, StoreOptions options, String reason) {
        StoreException thrown = assertThrows(StoreException.class, () -> Store.open(store, options));
        assertTrue(thrown.getMessage().contains(reason), thrown.getMessage());
    }

    @Test
    void storeAndItsCopiesAreEncrypted() throws IOException {
        Path path = folder.resolve("store");
        Path full = folder.resolve("full");
        Path archive = folder.resolve("archive");
        try (Store store = Store.open(path, options().key(key(1)))) {
            store.setRoot("text", TEXT);
            store.backup(full);
            store.setRoot("later", TEXT);
        }
        for (Path each : List.of(path, full, archive)) {
            assertEncrypted(each);
        }
        assertRefused(path, options(), "is encrypted");
        assertRefused(path, options().key(key(2)), "key");
        try (Store store = Store.open(path, options().key(key(1)));
                Store view = Store.open(View.of(full).archive(archive), new StoreOptions().key(key(1)))) {
            assertEquals(TEXT, store.root("later", String.class));
            assertEquals(TEXT, view.root("later", String.class));
        }
    }

    @Test
    void keyIsRotatedWhileStoreIsOpen() {
        Path path = folder.resolve("store");
        Path full = folder.resolve("full");
        try (Store store = Store.open(path, options().key(key(1)))) {
            store.setRoot("text", TEXT);
            store.backup(full);
            store.rotateKey(key(2));
            store.setRoot("later", TEXT);
        }
        assertRefused(path, options().key(key(1)), "key");
        // The backup keeps the key that it was made with.
        try (Store store =
                Store.open(path, options().key(key(2)).olderKey(key(1)).backup(full))) {
            assertEquals(TEXT, store.root("later", String.class));
        }
    }

    @Test
    void invalidKeysAreRefused() {
        Path path = folder.resolve("store");
        assertThrows(IllegalArgumentException.class, () -> new StoreOptions().key(new byte[16]));
        StoreOptions olderAlone = new StoreOptions().olderKey(key(1));
        assertThrows(IllegalArgumentException.class, () -> Store.open(path, olderAlone));
        try (Store store = Store.open(path)) {
            StoreException thrown = assertThrows(StoreException.class, () -> store.rotateKey(key(1)));
            assertTrue(thrown.getMessage().contains("without keys"), thrown.getMessage());
            assertThrows(IllegalArgumentException.class, () -> store.rotateKey(new byte[33]));
        }
        assertRefused(path, new StoreOptions().key(key(1)), "is not encrypted");
    }
}
