package cedrat.oracle.protocol;

/// Kinds of an administrator's requests ([Protocol#ADMIN]). The number goes over the wire and keeps its meaning.
///
/// A reply consists of numbers of eight bytes. The first three are the kind, whether there is another page (0 or
/// 1), and [#from][FrameWriter#admin] of the next page; then come entries, each of [#width] numbers.
public enum AdminKind {
    /// State of the server: one entry. Later servers may add numbers to its end.
    STATE(1, 14),
    /// Sessions with a number of at least `from`: number, name, address (16 bytes, IPv6), port, and the ticks for
    /// which it was silent. Address and port are 0 while it has no connection.
    SESSIONS(2, 6),
    /// Open transactions that began at `from` or later: start timestamp, name of the session. The name is 0 while
    /// no client has claimed the transaction since the server was started.
    OPEN(3, 2),
    /// Namespaces from `from` on, as signed numbers: number, mark of the newest sweep, and the number of sessions
    /// that the namespace ends with, or 0.
    NAMESPACES(4, 3),
    /// Ends the session with the name `from`: whether the session was there, and how many transactions aborted.
    END_SESSION(5, 2),
    /// The next bytes of a backup, which begins anew where `from` is 0: state ([#BACKUP_GOES_ON] or another), length
    /// of the stream up to the end of its snapshot (0 before that), length of the stream so far, number of bytes in
    /// this reply, and these bytes, the first of each number the lowest.
    BACKUP(6, 1);

    /// The stream of the backup goes on.
    public static final int BACKUP_GOES_ON = 0;
    /// Another connection makes a backup.
    public static final int BACKUP_BUSY = 1;
    /// The backup has ended, because its bytes were not requested fast enough, or it was never begun.
    public static final int BACKUP_LOST = 2;
    /// Numbers of a part of a backup before its bytes.
    public static final int BACKUP_HEAD = 4;

    /// Numbers before the entries of a reply.
    public static final int HEAD = 3;

    private static final AdminKind[] BY_NUMBER = new AdminKind[values().length + 1];

    static {
        for (AdminKind kind : values()) {
            BY_NUMBER[kind.number] = kind;
        }
    }

    private final int number;
    private final int width;

    AdminKind(int number, int width) {
        this.number = number;
        this.width = width;
    }

    /// The number that goes over the wire.
    public int number() {
        return number;
    }

    /// Returns the number of numbers of an entry.
    public int width() {
        return width;
    }

    /// Returns the most entries of a reply.
    public int entriesMax() {
        return (Protocol.ADMIN_VALUES_MAX - HEAD) / width;
    }

    /// Whether a reply may have so many numbers.
    boolean mayHave(int values) {
        int entries = values - HEAD;
        return entries >= 0
                && values <= Protocol.ADMIN_VALUES_MAX
                && (this == STATE ? entries >= width : entries % width == 0)
                && (this != END_SESSION || entries == width)
                && (this != BACKUP || entries >= BACKUP_HEAD);
    }

    /// The kind with this number; `null` if this program knows none.
    public static AdminKind of(long number) {
        return number > 0 && number < BY_NUMBER.length ? BY_NUMBER[(int) number] : null;
    }
}
