package cedrat.oracle.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import cedrat.oracle.protocol.Protocol;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

class RowIdsTest {
    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    /// Values that other implementations of XXH64 give.
    @Test
    void theHashIsXxh64() {
        assertEquals(0xef46db3751d8e999L, RowIds.hash(bytes(""), 0));
        assertEquals(0xd24ec4f1a98c6e5bL, RowIds.hash(bytes("a"), 0));
        assertEquals(0x44bc2cf5ad770999L, RowIds.hash(bytes("abc"), 0));
        assertEquals(0x0b242d361fda71bcL, RowIds.hash(bytes("The quick brown fox jumps over the lazy dog"), 0));
    }

    @Test
    void tableRowIdsAreDistinctAndUnreserved() {
        assertNotEquals(RowIds.of(bytes("a"), bytes("row")), RowIds.of(bytes("b"), bytes("row")));
        assertNotEquals(RowIds.of(bytes("a"), bytes("brow")), RowIds.of(bytes("ab"), bytes("row")));
        assertFalse(Protocol.isReservedRow(RowIds.unreserved(Protocol.ROW_NONE)));
        assertFalse(Protocol.isReservedRow(RowIds.unreserved(Protocol.ROW_HIGHEST)));
        assertEquals(5, RowIds.unreserved(5));
    }
}
