package cedrat.oracle.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class BesideTest {
    private static final long MS = 1_000_000;

    @TempDir
    private Path folder;

    private static double longest(Beside.Course course, long from, long to) {
        return course.longestIn(new Results.Gap(from * MS, to * MS));
    }

    /// The longest delay that overlaps a gap explains it; a short delay is counted, and explains nothing.
    @Test
    void longestPauseWithinGapIsReported() {
        Beside.Course course = new Beside.Course();
        course.add(0, 4 * MS);
        course.add(10 * MS, 16 * MS);
        course.add(20 * MS, 29 * MS);
        assertEquals(3, course.times.total());
        assertEquals(9 * MS, course.longest);
        assertEquals(0, longest(course, 0, 10), "it ends where the first begins that counts");
        assertEquals(6, longest(course, 0, 11));
        assertEquals(6, longest(course, 12, 13));
        assertEquals(0, longest(course, 16, 20));
        assertEquals(9, longest(course, 15, 21));
        assertEquals(9, longest(course, 0, 100));
        assertEquals(0, longest(course, 29, 40));
    }

    /// Its threads are gone when it is closed, and so is its file.
    @Test
    void nothingIsLeft() throws IOException {
        Beside beside = new Beside(folder);
        assertEquals(1, files());
        beside.close();
        assertEquals(0, files());
        assertEquals(
                0,
                Thread.getAllStackTraces().keySet().stream()
                        .filter(thread -> thread.getName().endsWith(" beside"))
                        .count());
        assertThrows(IOException.class, () -> new Beside(folder.resolve("nowhere")));
    }

    private long files() throws IOException {
        try (Stream<Path> all = Files.list(folder)) {
            return all.count();
        }
    }
}
