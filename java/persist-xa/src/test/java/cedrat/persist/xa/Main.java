package cedrat.persist.xa;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/// A process with a bank, which executes commands line by line, and reports when each is done.
final class Main {
    private static final BufferedReader WORDS =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    private Main() {}

    /// Waits at a point: to be killed, or for the command to go on.
    static void stop(Point point) {
        say("stopped " + point);
        try {
            WORDS.readLine();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void say(String line) {
        System.out.println("> " + line);
    }

    public static void main(String[] arguments) throws Exception {
        try (Bank bank = new Bank(Path.of(arguments[0]), Integer.parseInt(arguments[1]))) {
            say("open");
            for (String line; (line = WORDS.readLine()) != null; ) {
                String[] words = line.split(" ");
                switch (words[0]) {
                    case "found" -> bank.found();
                    case "transfer" -> transfer(bank, Long.parseLong(words[1]), Point.valueOf(words[2]));
                    case "example" -> bank.example(Long.parseLong(words[1]));
                    case "refused" -> say(bank.refusedExample(Long.parseLong(words[1])));
                    case "twice" -> say(bank.twice(Long.parseLong(words[1])));
                    case "outlast" -> say(bank.outlast(Long.parseLong(words[1])));
                    case "recover" -> bank.recover();
                    case "show" -> say(bank.show());
                    default -> throw new IllegalArgumentException(line);
                }
                say("done");
            }
        }
        System.exit(0); // threads of the transaction manager go on
    }

    private static void transfer(Bank bank, long amount, Point at) {
        try {
            bank.transfer(amount, at);
            say("committed");
        } catch (Exception e) {
            e.printStackTrace();
            say("failed " + e.getClass().getSimpleName());
        }
    }
}
