package cedrat.persist.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.reflect.Field;
import java.net.URI;
import java.nio.file.DirectoryStream;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.AbstractList;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;

class CursorsTest {
    /// J5.2: those that have a count of changes that is not their own.
    @Test
    void eachThatComparesCountsIsKnown() throws IOException, ClassNotFoundException {
        List<String> unknown = new ArrayList<>();
        int count = 0;
        Path util = FileSystems.getFileSystem(URI.create("jrt:/")).getPath("modules", "java.base", "java", "util");
        try (DirectoryStream<Path> files = Files.newDirectoryStream(util, "*.class")) {
            for (Path file : files) {
                String name = file.getFileName().toString().replace(".class", "");
                Class<?> type = Class.forName("java.util." + name, false, null);
                if (countsOthers(type)) {
                    count++;
                    if (!Cursors.are(type)) {
                        unknown.add(name);
                    }
                }
            }
        }
        assertTrue(count > 20, count + " classes");
        assertEquals(List.of(), unknown);
    }

    private static boolean countsOthers(Class<?> type) {
        for (Field field : type.getDeclaredFields()) {
            String name = field.getName().toLowerCase(Locale.ROOT);
            if (name.endsWith("count") && name.contains("mod") && !name.equals("modcount")) {
                return true;
            }
        }
        return AbstractList.class.isAssignableFrom(type) && type.getSimpleName().equals("SubList");
    }
}
