package cedrat.oracle.tables;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cedrat.oracle.client.ClientOptions;
import cedrat.oracle.client.OracleClient;
import cedrat.oracle.protocol.Protocol;
import cedrat.oracle.tables.ScriptedOracle.Answer;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// A transaction that may have committed is not run again.
@Timeout(120)
class OutcomeUnknownTest {
    private static final Bytes ROW = Bytes.of("alice");
    private static final Column BALANCE = Column.of("account", "balance");

    private final AtomicInteger runs = new AtomicInteger();

    private int run(ScriptedOracle oracle) {
        runs.set(0);
        MemoryTables tables = new MemoryTables();
        Table accounts = tables.create("accounts", Granularity.ROW);
        ClientOptions options = ClientOptions.of(oracle.address())
                .withReconnect(Duration.ofMillis(1), Duration.ofMillis(20))
                .withPatience(Duration.ofSeconds(3));
        try (OracleClient client = OracleClient.open(options)) {
            return new TransactionManager(client, tables).runInTransaction(Isolation.SNAPSHOT, transaction -> {
                transaction.put(accounts, ROW, BALANCE, Bytes.of(100));
                return runs.incrementAndGet();
            });
        }
    }

    @Test
    void unknownOutcomeIsNeverRetried() throws Exception {
        Answer[][] scripts = {
            {Answer.CUT, Answer.CUT},
            {Answer.CUT, Answer.REFUSAL},
            {Answer.REFUSAL, Answer.REFUSAL}
        };
        for (Answer[] script : scripts) {
            try (ScriptedOracle oracle = new ScriptedOracle(script[0], script[1])) {
                OutcomeUnknownException unknown = assertThrows(OutcomeUnknownException.class, () -> run(oracle));
                assertEquals(1, unknown.start().value());
                assertEquals(1, runs.get(), script[0] + ", then " + script[1]);
                assertEquals(1, oracle.count(Protocol.BEGIN), script[0] + ", then " + script[1]);
            }
        }
    }

    @Test
    void outcomeFoundLaterIsUsed() throws Exception {
        try (ScriptedOracle oracle = new ScriptedOracle(Answer.CUT, Answer.COMMITTED)) {
            assertEquals(1, run(oracle));
            assertEquals(1, oracle.count(Protocol.BEGIN));
        }
        try (ScriptedOracle oracle = new ScriptedOracle(Answer.CUT, Answer.ABORTED)) {
            assertEquals(2, run(oracle), "it has aborted, and is run again");
            assertEquals(2, oracle.count(Protocol.BEGIN));
        }
        try (ScriptedOracle oracle = new ScriptedOracle(Answer.FORGOTTEN, Answer.FORGOTTEN)) {
            assertEquals(2, run(oracle), "its rows show that it has aborted");
        }
    }
}
