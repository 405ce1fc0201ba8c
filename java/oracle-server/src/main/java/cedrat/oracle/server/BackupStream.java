package cedrat.oracle.server;

import cedrat.oracle.protocol.AdminKind;
import java.util.ArrayDeque;

/// Entries of the log that an administrator's connection receives as a backup: those of a snapshot that is begun for
/// it, those between its parts, and all that follow.
///
/// ```text
///  ┌─────────── closed, or too many bytes wait ───────────┐
///  ▼                                                      │
/// Idle ──part──▶ Awaiting ──snapshot begins──▶ Receiving ─┘
/// ```
///
/// A part of the stream has only entries that were appended before its request was decided. So all of them are
/// acknowledged when the part leaves the server (D1).
///
/// ```text
/// stream  entry *
/// entry   length 4 | byte *
/// ```
///
/// Numbers are little endian. Lives on the decide thread.
final class BackupStream {
    /// A backup that leaves more bytes waiting ends: memory has no room for a log.
    static final int WAITING_MAX = 64 << 20;

    private enum State {
        IDLE,
        AWAITING,
        RECEIVING
    }

    private State state = State.IDLE;
    private Connection owner;
    private final ArrayDeque<byte[]> waiting = new ArrayDeque<>();
    /// Bytes of the first one that were sent.
    private int sent;
    private long waitingBytes;
    private long total;
    /// Length of the stream up to the end of the snapshot; 0 before that.
    private long whole;

    BackupStream() {}

    /// Whether a snapshot has to be begun.
    boolean needsSnapshot() {
        return state == State.AWAITING;
    }

    /// A snapshot begins with the next entry.
    void snapshotBegins() {
        if (state == State.AWAITING) {
            state = State.RECEIVING;
        }
    }

    /// A snapshot has ended with the newest entry.
    void snapshotEnds() {
        if (state == State.RECEIVING && whole == 0) {
            whole = total;
        }
    }

    /// The next entry of the log.
    void entry(byte[] bytes, int length) {
        if (state != State.RECEIVING) {
            return;
        }
        byte[] copy = new byte[Integer.BYTES + length];
        for (int at = 0; at < Integer.BYTES; at++) {
            copy[at] = (byte) (length >>> Byte.SIZE * at);
        }
        System.arraycopy(bytes, 0, copy, Integer.BYTES, length);
        waiting.add(copy);
        waitingBytes += copy.length;
        total += copy.length;
        if (waitingBytes > WAITING_MAX) {
            end();
        }
    }

    /// The connection is gone.
    void closed(Connection connection) {
        if (owner == connection) {
            end();
        }
    }

    private void end() {
        state = State.IDLE;
        owner = null;
        waiting.clear();
        waitingBytes = 0;
        sent = 0;
        total = 0;
        whole = 0;
    }

    /// Puts the next part of the stream into `to` from `at` on, as [AdminKind#BACKUP] says. Returns how many numbers
    /// that are.
    int part(Connection connection, boolean isFirst, long[] to, int at) {
        if (isFirst && (owner == null || owner == connection)) {
            end();
            owner = connection;
            state = State.AWAITING;
        }
        to[at] = owner == connection
                ? AdminKind.BACKUP_GOES_ON
                : isFirst ? AdminKind.BACKUP_BUSY : AdminKind.BACKUP_LOST;
        boolean isOwner = owner == connection;
        to[at + 1] = isOwner ? whole : 0;
        to[at + 2] = isOwner ? total : 0;
        int first = at + AdminKind.BACKUP_HEAD;
        int count = isOwner ? take(to, first) : 0;
        to[at + 3] = count;
        return AdminKind.BACKUP_HEAD + (count + Long.BYTES - 1) / Long.BYTES;
    }

    private int take(long[] to, int first) {
        int max = (to.length - first) * Long.BYTES;
        int count = 0;
        while (count < max && !waiting.isEmpty()) {
            byte[] entry = waiting.peek();
            int part = Math.min(max - count, entry.length - sent);
            for (int index = 0; index < part; index++, count++) {
                int number = first + count / Long.BYTES;
                int shift = count % Long.BYTES * Byte.SIZE;
                long before = shift == 0 ? 0 : to[number];
                to[number] = before | (entry[sent + index] & 0xffL) << shift;
            }
            sent += part;
            if (sent == entry.length) {
                waiting.remove();
                sent = 0;
            }
        }
        waitingBytes -= count;
        return count;
    }
}
