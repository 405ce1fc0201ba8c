package cedrat.oracle.log.bookkeeper;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.zip.CRC32C;

/// Which ledgers make up the log, and who has it: what one node of ZooKeeper holds (drawn in
/// docs/formats/oracle-ledgers.md).
///
/// @param openings how often the log was taken
/// @param owner drawn at random by who has taken it last
/// @param doomed ledgers that are not of the log any more, and may still be there
/// @param ledgers those of the log, the oldest first
record LedgerList(long openings, long owner, List<Long> doomed, List<Long> ledgers) {
    private static final byte[] MAGIC = "CEDRLIST".getBytes(StandardCharsets.US_ASCII);
    private static final short VERSION = 1;

    /// Largest number of ledgers: they fit a node of ZooKeeper, which has a megabyte.
    static final int LEDGERS_MAX = 50_000;

    private static final int HEADER_BYTES = MAGIC.length + 2 + 2 + 8 + 8 + 4 + 4;
    private static final int CHECKSUM_BYTES = 4;

    /// List of a log that no server has taken yet.
    static final LedgerList EMPTY = new LedgerList(0, 0, List.of(), List.of());

    LedgerList {
        doomed = List.copyOf(doomed);
        ledgers = List.copyOf(ledgers);
    }

    /// The same, taken by another.
    LedgerList takenBy(long other) {
        return new LedgerList(openings + 1, other, doomed, ledgers);
    }

    /// The same, with a ledger behind the last one.
    LedgerList with(long ledger) {
        List<Long> more = new ArrayList<>(ledgers);
        more.add(ledger);
        return new LedgerList(openings, owner, doomed, more);
    }

    /// The same, with its first ledgers doomed.
    LedgerList withoutFirst(int count) {
        List<Long> more = new ArrayList<>(doomed);
        more.addAll(ledgers.subList(0, count));
        return new LedgerList(openings, owner, more, ledgers.subList(count, ledgers.size()));
    }

    /// The same, when these are gone.
    LedgerList without(List<Long> gone) {
        List<Long> fewer = new ArrayList<>(doomed);
        fewer.removeAll(gone);
        return new LedgerList(openings, owner, fewer, ledgers);
    }

    byte[] toBytes() {
        if (doomed.size() + ledgers.size() > LEDGERS_MAX) {
            throw new IllegalStateException("cannot store the list of ledgers in a node of ZooKeeper: it has "
                    + ledgers.size() + " ledgers and " + doomed.size() + " that are to be deleted");
        }
        ByteBuffer bytes = ByteBuffer.allocate(
                        HEADER_BYTES + (doomed.size() + ledgers.size()) * Long.BYTES + CHECKSUM_BYTES)
                .order(ByteOrder.LITTLE_ENDIAN);
        bytes.put(MAGIC).putShort(VERSION).putShort((short) 0).putLong(openings).putLong(owner);
        bytes.putInt(doomed.size()).putInt(ledgers.size());
        doomed.forEach(bytes::putLong);
        ledgers.forEach(bytes::putLong);
        bytes.putInt(checksum(bytes.array(), bytes.position()));
        return bytes.array();
    }

    /// @throws IOException if they are no list of this version
    static LedgerList of(byte[] array) throws IOException {
        if (array.length < HEADER_BYTES + CHECKSUM_BYTES) {
            throw new IOException("invalid list of ledgers: it has only " + array.length + " bytes");
        }
        ByteBuffer bytes = ByteBuffer.wrap(array).order(ByteOrder.LITTLE_ENDIAN);
        byte[] magic = new byte[MAGIC.length];
        bytes.get(magic);
        if (!Arrays.equals(magic, MAGIC)) {
            throw new IOException("invalid list of ledgers: it has another magic number");
        }
        int version = bytes.getShort();
        if (version != VERSION) {
            throw new IOException("unknown version " + version
                    + " of the list of ledgers: use the version of Cedrat that has written it");
        }
        bytes.getShort();
        long openings = bytes.getLong();
        long owner = bytes.getLong();
        int doomedCount = bytes.getInt();
        int ledgerCount = bytes.getInt();
        long count = (long) doomedCount + ledgerCount;
        if (doomedCount < 0 || ledgerCount < 0 || array.length != HEADER_BYTES + count * Long.BYTES + CHECKSUM_BYTES) {
            throw new IOException(
                    "invalid list of ledgers: it has " + array.length + " bytes for " + count + " ledgers");
        }
        if (checksum(array, array.length - CHECKSUM_BYTES) != bytes.getInt(array.length - CHECKSUM_BYTES)) {
            throw new IOException("invalid list of ledgers: its checksum does not match");
        }
        LedgerList list = new LedgerList(openings, owner, longs(bytes, doomedCount), longs(bytes, ledgerCount));
        list.checkLedgers();
        return list;
    }

    /// Ledgers of the log are never deleted as doomed ones, nor read twice.
    private void checkLedgers() throws IOException {
        Set<Long> seen = new HashSet<>();
        for (List<Long> some : List.of(doomed, ledgers)) {
            for (long ledger : some) {
                if (ledger < 0 || !seen.add(ledger)) {
                    throw new IOException("invalid list of ledgers: ledger " + ledger
                            + (ledger < 0 ? " has a negative number" : " is in it twice"));
                }
            }
        }
    }

    private static List<Long> longs(ByteBuffer bytes, int count) {
        List<Long> longs = new ArrayList<>(count);
        for (int at = 0; at < count; at++) {
            longs.add(bytes.getLong());
        }
        return longs;
    }

    static int checksum(byte[] bytes, int length) {
        CRC32C checksum = new CRC32C();
        checksum.update(bytes, 0, length);
        return (int) checksum.getValue();
    }
}
