package cedrat.oracle.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Arrays;
import org.junit.jupiter.api.Test;

class TableSystemTest {
    @Test
    void valueKeepsItsBalance() {
        byte[] value = TableSystem.value(-7);
        assertEquals(TableSystem.VALUE_BYTES, value.length);
        assertEquals(-7, TableSystem.balance(value));
    }

    @Test
    void missingAccountIsNoBalance() {
        assertThrows(IllegalStateException.class, () -> TableSystem.balance(null));
        assertThrows(IllegalStateException.class, () -> TableSystem.balance(new byte[3]));
    }

    @Test
    void rowsDiffer() {
        assertFalse(Arrays.equals(TableSystem.row(0), TableSystem.row(1)));
    }
}
