package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class KeyRangeTest {
    private static Bytes bytes(int... values) {
        byte[] bytes = new byte[values.length];
        for (int at = 0; at < values.length; at++) {
            bytes[at] = (byte) values[at];
        }
        return Bytes.of(bytes);
    }

    @Test
    void prefixIsRangeOfKeys() {
        assertEquals(new KeyRange(bytes('a', 'b'), bytes('a', 'c')), KeyRange.prefix(bytes('a', 'b')));
        assertEquals(new KeyRange(bytes(1, 0xff), bytes(2)), KeyRange.prefix(bytes(1, 0xff)));
        assertEquals(new KeyRange(bytes(0x7f), bytes(0x80)), KeyRange.prefix(bytes(0x7f)));
        assertEquals(new KeyRange(bytes(0xff), Bytes.EMPTY), KeyRange.prefix(bytes(0xff)), "up to the last key");
        assertEquals(KeyRange.ALL, KeyRange.prefix(Bytes.EMPTY));
    }

    @Test
    void beginningsAreCompared() {
        assertTrue(bytes(1, 2).startsWith(bytes(1)));
        assertTrue(bytes(1).startsWith(Bytes.EMPTY));
        assertFalse(bytes(1).startsWith(bytes(1, 2)));
        assertFalse(bytes(1, 2).startsWith(bytes(2)));
        assertTrue(Column.of("f", "ab").startsWith(Column.of("f", "a")));
        assertFalse(Column.of("g", "ab").startsWith(Column.of("f", "a")));
    }
}
