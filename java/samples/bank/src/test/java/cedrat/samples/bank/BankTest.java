package cedrat.samples.bank;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.samples.bank.Bank.Payment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class BankTest {
    private final Account rich = new Account("rich", 100);
    private final Account poor = new Account("poor", 10);

    @Test
    void paymentRequiresSufficientBalance() {
        assertTrue(Bank.pay(new Payment(rich, poor, 60)));
        assertFalse(Bank.pay(new Payment(rich, poor, 60)));
        assertEquals(List.of(100L, -60L), rich.bookings());
        assertEquals(List.of(10L, 60L), poor.bookings());
        assertEquals(40, rich.cents());
        assertEquals(110, Bank.total(List.of(rich, poor)));
    }

    @Test
    void batchOfTransfersIsAtomic() {
        List<Payment> payments =
                List.of(new Payment(rich, poor, 60), new Payment(rich, poor, 50), new Payment(rich, poor, 30));
        assertEquals(0, Bank.payAll(payments, 3));
        assertEquals(List.of(100L), rich.bookings());
        assertEquals(List.of(10L), poor.bookings());
        assertEquals(2, Bank.payAll(payments, 2));
        assertEquals(10, rich.cents());
        assertEquals(100, poor.cents());
    }

    /// The program, started as its page says.
    @Test
    void threadsKeepTheTotal(@TempDir Path folder) throws Exception {
        Path said = folder.resolve("said");
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-javaagent:" + System.getProperty("cedrat.agent"),
                        "-cp",
                        Path.of("target", "classes").toString(),
                        "cedrat.samples.bank.Main")
                .redirectErrorStream(true)
                .redirectOutput(said.toFile())
                .start();
        int status = process.waitFor();
        String text = Files.readString(said);
        assertTrue(text.contains("\ntogether 80000 before and 80000 after\n"), text);
        assertTrue(text.endsWith("\n0 wages paid, the employer has 250\n2 wages paid, the employer has 50\n"), text);
        assertEquals(0, status);
    }
}
