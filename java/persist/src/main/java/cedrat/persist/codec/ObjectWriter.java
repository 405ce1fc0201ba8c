package cedrat.persist.codec;

import java.nio.charset.StandardCharsets;

/// Where a [Shape] writes an object: first its data, then, behind [#endData], what it refers to.
///
/// **Threads:** one at a time.
public abstract class ObjectWriter {
    public final CommitBuffer buffer;
    /// The number of the next reference.
    public int step;

    ObjectWriter(CommitBuffer buffer) {
        this.buffer = buffer;
    }

    /// The data end here.
    public void endData() {
        buffer.endData();
    }

    /// The next reference.
    public abstract void reference(Object value);

    /// The next reference, of which the word is known.
    public void word(long word) {
        buffer.putLong(word);
        step++;
    }

    /// Returns the exception for an object that cannot be persistent.
    public abstract RuntimeException refuse(String why);

    /// A text as data: its length in bytes, and its bytes in UTF-8.
    public void putText(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        buffer.putInt(bytes.length);
        buffer.putBytes(bytes, 0, bytes.length);
    }
}
