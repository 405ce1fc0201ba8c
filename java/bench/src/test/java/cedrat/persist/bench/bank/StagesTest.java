package cedrat.persist.bench.bank;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Transfers with parts of the whole left out.
class StagesTest {
    private static final int TRANSFERS = 100;

    @TempDir
    Path folder;

    /// Each transfer is a commit, and what lasts is there when the bank is opened again.
    @ParameterizedTest
    @ValueSource(strings = {"cedrat:plain", "cedrat:memory", "cedrat:no-store", "cedrat"})
    void aStageDoesTheTransfersThemselves(String name) throws Exception {
        Engine stage = Cedrat.of(name);
        SplittableRandom random = new SplittableRandom(1);
        long sum = 0;
        boolean hasHistory = !name.equals("cedrat:plain") && !name.equals("cedrat:memory");
        try (Engine.Bank bank = stage.open(folder, true)) {
            for (int turn = 0; turn < TRANSFERS; turn++) {
                Transfer transfer = Transfer.next(random);
                bank.transact(transfer);
                sum += transfer.amount();
            }
            assertEquals(Balances.of(sum, hasHistory ? TRANSFERS : 0), bank.balances());
        }
        assertEquals(name.equals("cedrat"), stage.isLasting());
        if (stage.isLasting()) {
            try (Engine.Bank bank = stage.open(folder, true)) {
                assertEquals(Balances.of(sum, TRANSFERS), bank.balances());
            }
        }
    }

    @Test
    void stagesAreKnownByName() {
        assertTrue(Cedrat.of("cedrat").isLasting());
        assertThrows(IllegalArgumentException.class, () -> Cedrat.of("cedrat:nothing"));
    }

    /// As a store that keeps them would, it gives each new object of a commit an identity.
    @Test
    void unreferencedObjectsHaveIdentities() {
        ByteBuffer changes = ByteBuffer.allocate(128).order(ByteOrder.LITTLE_ENDIAN);
        for (int turn = 0; turn < 2; turn++) {
            changes.putInt(1).putInt(16).put(new byte[16]); // NEW
            changes.putInt(2).putInt(4).putLong(1).putInt(8).putInt(0).put(new byte[8]); // PATCH, padded
        }
        NoStore store = new NoStore();
        assertArrayEquals(
                new long[] {1, 2},
                store.commit(changes.array(), changes.position()).identities());
        assertArrayEquals(new long[] {3}, store.commit(changes.array(), 24).identities());
    }
}
