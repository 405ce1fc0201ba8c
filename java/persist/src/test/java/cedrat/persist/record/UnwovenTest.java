package cedrat.persist.record;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.Transaction;
import cedrat.persist.memory.Fields;
import cedrat.persist.memory.MemoFields;
import java.util.List;
import org.junit.jupiter.api.Test;

/// J12: this package is not woven, as code is that the agent has not seen.
class UnwovenTest {
    /// J12.
    @Test
    void noTransactionBeginsInCodeWithoutBarriers() {
        var thrown = assertThrows(IllegalStateException.class, Transaction::begin);
        assertTrue(thrown.getMessage().contains("no write barriers"), thrown.getMessage());
        assertThrows(IllegalStateException.class, () -> Transaction.run(() -> {}));
        assertThrows(IllegalStateException.class, () -> Transaction.run(transaction -> {}));
        assertThrows(IllegalStateException.class, () -> Transaction.call(() -> 1));
        assertThrows(IllegalStateException.class, () -> Transaction.call(transaction -> 1));
    }

    /// J12.
    @Test
    void noTransactionBeginsWithAnUnwovenClass() {
        Recorder recorder = new Recorder(new Fields(declaring -> {}, new MemoFields(List.of())), true, name -> false);
        recorder.unwoven.fail("the class Strange cannot be woven");
        var thrown = assertThrows(
                IllegalStateException.class, () -> recorder.transactions.begin(recorder.transactions.newOwner()));
        assertTrue(thrown.getMessage().contains("Strange"), thrown.getMessage());
    }
}
