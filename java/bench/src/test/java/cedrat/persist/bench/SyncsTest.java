package cedrat.persist.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SyncsTest {
    @TempDir
    Path folder;

    @Test
    void forcesAndSyncedWritesAreCounted() throws IOException {
        String trace = """
                7 openat(AT_FDCWD, "log", O_RDWR|O_CREAT|O_DSYNC|O_DIRECT, 0666) = 4
                7 openat(AT_FDCWD, "missing", O_RDONLY) = -1 ENOENT (No such file or directory)
                7 openat(AT_FDCWD, "data", O_RDWR <unfinished ...>
                8 fdatasync(3)                      = 0
                7 <... openat resumed>)             = 5
                8 pwrite64(4, "before", 6, 0)       = 6
                7 openat(AT_FDCWD, "home/measurement-begins", O_WRONLY|O_CREAT|O_EXCL, 0666 <unfinished ...>
                8 pwrite64(4, "\\"synced\\"", 8, 0) = 8
                7 <... openat resumed>)             = 6
                7 close(6)                          = 0
                8 write(5, "not synced", 10)        = 10
                8 fdatasync(5 <unfinished ...>
                7 pwritev2(5, [{iov_base="synced", iov_len=6}], 1, 0, RWF_DSYNC) = 6
                7 pwritev2(5, [{iov_base="not", iov_len=3}], 1, 0, 0) = 3
                7 close(4)                          = 0
                8 <... fdatasync resumed>)          = 0
                8 pwrite64(4, "no more", 7, 0)      = 7
                7 openat(AT_FDCWD, "home/measurement-ends", O_WRONLY|O_CREAT|O_EXCL, 0666) = 6
                8 fsync(5)                          = 0
                """;
        Path file = Files.writeString(folder.resolve("trace"), trace);
        assertEquals(3, Syncs.count(file));
    }
}
