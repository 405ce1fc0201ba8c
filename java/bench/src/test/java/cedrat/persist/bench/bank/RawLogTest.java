package cedrat.persist.bench.bank;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// The ceiling of the figures: synchronous writes, and nothing else.
class RawLogTest {
    private static final int BLOCK = 4096;

    @TempDir
    Path folder;

    /// One thread shares no write with another, and none is left out: each has a block with the sum up to it.
    @Test
    void eachTransferIsASeparateWrite() throws Exception {
        RawLog raw = RawLog.of("raw:320:1:sleep");
        SplittableRandom random = new SplittableRandom(1);
        int transfers = 20;
        long[] sums = new long[transfers + 1];
        try (Engine.Bank bank = raw.open(folder, true)) {
            for (int turn = 1; turn <= transfers; turn++) {
                Transfer transfer = Transfer.next(random);
                bank.transact(transfer);
                sums[turn] = sums[turn - 1] + transfer.amount();
            }
        }
        try (FileChannel file = FileChannel.open(folder.resolve("log"))) {
            ByteBuffer block = ByteBuffer.allocate(BLOCK);
            for (int turn = 1; turn <= transfers + 1; turn++) {
                file.read(block.clear(), (turn - 1L) * BLOCK);
                boolean isWritten = turn <= transfers;
                assertEquals(isWritten ? turn : 0, block.getLong(0));
                assertEquals(isWritten ? sums[turn] : 0, block.getLong(Long.BYTES));
            }
        }
        try (Engine.Bank bank = raw.open(folder, true)) {
            assertEquals(Balances.of(sums[transfers], transfers), bank.balances());
        }
    }
}
