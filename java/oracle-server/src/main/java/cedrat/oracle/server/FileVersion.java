package cedrat.oracle.server;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;

/// Version of the content of a file: one that was renamed over it has another key.
///
/// @param key `null` if the file system has none, or the file cannot be read
record FileVersion(FileTime time, long length, Object key) {
    private static final FileVersion NONE = new FileVersion(FileTime.fromMillis(0), -1, null);

    static FileVersion of(Path file) {
        try {
            BasicFileAttributes attributes = Files.readAttributes(file, BasicFileAttributes.class);
            return new FileVersion(attributes.lastModifiedTime(), attributes.size(), attributes.fileKey());
        } catch (IOException unreadable) {
            return NONE; // reading it says why
        }
    }
}
