package cedrat.oracle.log.bookkeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

class LedgerListTest {
    private static final LedgerList LIST = new LedgerList(3, 0x1122334455667788L, List.of(11L), List.of(14L, 15L));

    /// The bytes of the page's example, which the codec writes and reads.
    @Test
    void itsBytesAreThoseOfThePage() throws Exception {
        String page = Files.readString(Path.of("../../docs/formats/oracle-ledgers.md"));
        String example = page.substring(page.indexOf("```hex") + "```hex".length(), page.lastIndexOf("```"));
        String hex = example.lines()
                .map(line -> line.replaceAll("[a-z]+ *$", ""))
                .collect(Collectors.joining())
                .replaceAll("\\s", "");
        assertEquals(hex, HexFormat.of().formatHex(LIST.toBytes()));
        assertEquals(LIST, LedgerList.of(HexFormat.of().parseHex(hex)));
    }

    @Test
    void damageIsFound() throws Exception {
        byte[] bytes = LIST.toBytes();
        for (int at = 0; at < bytes.length; at++) {
            byte[] damaged = bytes.clone();
            damaged[at] ^= 4;
            assertThrows(IOException.class, () -> LedgerList.of(damaged), "byte " + at);
            byte[] cut = Arrays.copyOf(bytes, at);
            assertThrows(IOException.class, () -> LedgerList.of(cut), at + " bytes");
        }
    }

    /// Any bytes whose checksum holds are a list of different ledgers, or refused.
    @Test
    void validChecksumIsListOrRefused() {
        for (long seed = 1; seed <= 2_000; seed++) {
            assertListOrRefused(new SplittableRandom(seed));
        }
    }

    private static void assertListOrRefused(SplittableRandom random) {
        byte[] bytes = LIST.toBytes();
        if (random.nextInt(4) == 0) {
            bytes = Arrays.copyOf(bytes, random.nextInt(100));
        }
        ByteBuffer buffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        for (int changes = random.nextInt(1, 4); changes > 0 && bytes.length > 8; changes--) {
            int at = random.nextInt(bytes.length - 8);
            switch (random.nextInt(3)) {
                case 0 -> bytes[at] = (byte) random.nextInt();
                case 1 -> buffer.putInt(at, random.nextInt() >> random.nextInt(32));
                default -> buffer.putLong(at, random.nextLong() >> random.nextInt(64));
            }
        }
        if (bytes.length >= 4) {
            buffer.putInt(bytes.length - 4, LedgerList.checksum(bytes, bytes.length - 4));
        }
        try {
            LedgerList list = LedgerList.of(bytes);
            Set<Long> different = new HashSet<>(list.ledgers());
            different.addAll(list.doomed());
            assertEquals(list.ledgers().size() + list.doomed().size(), different.size());
            assertTrue(different.stream().allMatch(ledger -> ledger >= 0));
        } catch (IOException refused) {
            assertTrue(refused.getMessage().contains("list of ledgers"), refused.getMessage());
        }
    }

    @Test
    void repeatedLedgerIsRefused() {
        for (LedgerList list : List.of(
                new LedgerList(1, 7, List.of(3L), List.of(2L, 3L)),
                new LedgerList(1, 7, List.of(), List.of(2L, 2L)),
                new LedgerList(1, 7, List.of(), List.of(-2L)))) {
            IOException refused = assertThrows(IOException.class, () -> LedgerList.of(list.toBytes()));
            assertTrue(refused.getMessage().startsWith("invalid list of ledgers: ledger "), refused.getMessage());
        }
    }

    @Test
    void ledgersComeAndGo() {
        LedgerList list = LedgerList.EMPTY.takenBy(7).with(1).with(2).with(3);
        assertEquals(new LedgerList(1, 7, List.of(), List.of(1L, 2L, 3L)), list);
        list = list.withoutFirst(2);
        assertEquals(new LedgerList(1, 7, List.of(1L, 2L), List.of(3L)), list);
        assertEquals(
                new LedgerList(2, 8, List.of(2L), List.of(3L)),
                list.without(List.of(1L)).takenBy(8));
        assertEquals(
                new LedgerList(1, 7, List.of(1L, 2L, 3L), List.of(4L)),
                list.with(4).withoutFirst(1),
                "those that were doomed before still are");
    }
}
