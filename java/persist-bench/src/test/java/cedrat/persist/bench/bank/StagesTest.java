package cedrat.persist.bench.bank;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

/// What is left of a transfer when parts of the whole are left out.
class StagesTest {
    @Test
    void aStageDoesTheTransfersThemselves() throws Exception {
        Engine plain = Cedrat.of("cedrat:plain");
        assertFalse(plain.isLasting());
        SplittableRandom random = new SplittableRandom(1);
        long sum = 0;
        try (Engine.Bank bank = plain.open(Path.of("nowhere"), false)) {
            for (int turn = 0; turn < 100; turn++) {
                Transfer transfer = Transfer.next(random);
                bank.transact(transfer);
                sum += transfer.amount();
            }
            assertEquals(Balances.of(sum, 0), bank.balances());
        }
    }

    @Test
    void stagesAreKnownByName() {
        assertTrue(Cedrat.of("cedrat").isLasting());
        assertThrows(IllegalArgumentException.class, () -> Cedrat.of("cedrat:nothing"));
    }

    /// As a store that keeps them would, it gives each new object of a commit an identity.
    @Test
    void whatIsKeptByNobodyHasIdentities() {
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
