package cedrat.persist;

import java.nio.charset.StandardCharsets;

/// Where a [Shape] writes an object: first its data, then, behind [#endData], what it refers to.
///
/// **Threads:** one at a time.
abstract class ObjectWriter {
    final CommitBuffer buffer;
    /// The number of the next reference.
    int step;

    ObjectWriter(CommitBuffer buffer) {
        this.buffer = buffer;
    }

    /// The data end here.
    void endData() {
        buffer.endData();
    }

    /// The next reference.
    abstract void reference(Object value);

    /// The next reference, of which the word is known.
    void word(long word) {
        buffer.putLong(word);
        step++;
    }

    /// Returns the exception for an object that cannot be persistent.
    abstract RuntimeException refuse(String why);

    /// A text as data: its length in bytes, and its bytes in UTF-8.
    void putText(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        buffer.putInt(bytes.length);
        buffer.putBytes(bytes, 0, bytes.length);
    }
}
