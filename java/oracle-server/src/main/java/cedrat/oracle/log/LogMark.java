package cedrat.oracle.log;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/// Entry of a log that is moved to another place. It decides nothing.
///
/// ```text
/// mark   version 3 | kind 1 | text
/// ```
///
/// `text` is of [Kind#MOVED] only: where the log is now, in UTF-8.
///
/// @param kind statement about the log
/// @param text place of the log; empty, except of [Kind#MOVED]
public record LogMark(Kind kind, String text) {
    static final byte VERSION = 3;
    private static final int HEADER_BYTES = 2;
    private static final int TEXT_BYTES_MAX = 1 << 12;

    /// Statement of a mark about its log.
    public enum Kind {
        /// A copy follows, which is incomplete until [#COMPLETE].
        BEGUN(1),
        /// The copy is complete: this log may be served.
        COMPLETE(2),
        /// The log is elsewhere now: no server may use this one.
        MOVED(3);

        private final byte number;

        Kind(int number) {
            this.number = (byte) number;
        }
    }

    /// Checks it.
    public LogMark {
        if (kind != Kind.MOVED && !text.isEmpty() || text.length() > TEXT_BYTES_MAX) {
            throw new IllegalArgumentException("invalid text of a mark " + kind + ": " + text);
        }
    }

    /// A mark without text.
    public LogMark(Kind kind) {
        this(kind, "");
    }

    /// Returns the entry.
    public byte[] entry() {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        return ByteBuffer.allocate(HEADER_BYTES + bytes.length)
                .put(VERSION)
                .put(kind.number)
                .put(bytes)
                .array();
    }

    /// Whether an entry is a mark, if it is one at all.
    public static boolean isMark(byte[] bytes, int from, int length) {
        return length > 0 && bytes[from] == VERSION;
    }

    /// Reads an entry: `length` bytes from `from` on.
    ///
    /// @throws DamagedEntryException if they are no mark
    public static LogMark read(byte[] bytes, int from, int length) throws DamagedEntryException {
        EntryBytes entry = new EntryBytes();
        entry.open(bytes, from, length, HEADER_BYTES, VERSION);
        byte number = entry.kind();
        Kind kind = Arrays.stream(Kind.values())
                .filter(each -> each.number == number)
                .findFirst()
                .orElseThrow(() -> entry.damaged("a mark of kind " + number));
        int count = entry.left();
        if (kind != Kind.MOVED && count > 0 || count > TEXT_BYTES_MAX) {
            throw entry.damaged("a mark with " + count + " bytes of text");
        }
        try {
            CharBuffer text =
                    StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes, entry.skip(count), count));
            return new LogMark(kind, text.toString());
        } catch (CharacterCodingException invalid) {
            throw entry.damaged("a mark whose text is not UTF-8");
        }
    }
}
