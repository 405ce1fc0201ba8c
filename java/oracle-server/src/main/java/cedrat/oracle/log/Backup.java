package cedrat.oracle.log;

/// End of a backup, which sums it up.
///
/// ```text
/// file     magic 8 | version 2 | zero 2 | checksum 4 | block *
/// block    kind 1 | length 4 | byte * | checksum 4
/// kind     1 for an entry of a log, 2 for the end, which is the last block
/// end      identity 8 | newest 8 | entries 8 | whole 8 | made 8
/// ```
///
/// Numbers are little endian. The first checksum, CRC-32C, covers the 12 bytes before; that of a block covers
/// the offset of the block in the file, as a number of 8 bytes, and its bytes before the checksum.
///
/// The entries replay to the state of an oracle, as those of a log do. Behind entry number `whole` no outcome is
/// forgotten: tables may have been copied from then on.
///
/// @param identity identity of the oracle
/// @param newest newest timestamp that was given out
/// @param entries number of entries
/// @param whole number of entries up to the one from which on outcomes are kept
/// @param made time at which it was begun, in seconds since 1970
public record Backup(long identity, long newest, long entries, long whole, long made) {
    static final byte[] MAGIC = {'C', 'E', 'D', 'R', 'B', 'A', 'C', 'K'};
    static final short VERSION = 1;
    static final int HEADER_BYTES = 16;
    static final int CHECKED_HEADER_BYTES = 12;
    static final byte ENTRY = 1;
    static final byte END = 2;
    static final int BLOCK_HEADER_BYTES = 5;
    static final int END_BYTES = 5 * Long.BYTES;
}
