package cedrat.oracle.log.bookkeeper;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;

/// For which log a ledger was made, and when: what its custom metadata says (docs/formats/oracle-ledgers.md).
///
/// @param path the node of ZooKeeper below which the log's servers meet
/// @param log the number of the log itself, for another one may have had the path before
/// @param opening how often that log had been taken when the ledger was made
record Origin(String path, long log, long opening) {
    private static final String APPLICATION = "cedrat-oracle";

    Map<String, byte[]> toMetadata() {
        return Map.of(
                "application",
                text(APPLICATION),
                "list",
                text(path),
                "log",
                text(Long.toString(log)),
                "opening",
                text(Long.toString(opening)));
    }

    /// Whether a ledger with this metadata was made for the same log before this opening.
    boolean isAfter(Map<String, byte[]> metadata) {
        return is(metadata.get("application"), APPLICATION)
                && is(metadata.get("list"), path)
                && is(metadata.get("log"), Long.toString(log))
                && metadata.get("opening") != null
                && isBefore(new String(metadata.get("opening"), StandardCharsets.UTF_8));
    }

    private boolean isBefore(String other) {
        return other.matches("\\d{1,18}") && Long.parseLong(other) < opening;
    }

    private static boolean is(byte[] found, String wanted) {
        return Arrays.equals(found, text(wanted));
    }

    private static byte[] text(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
