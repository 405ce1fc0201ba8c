package cedrat.oracle.server;

import java.util.Arrays;

/// The command with a planted bug: its first argument says which.
final class FaultyMain {
    private FaultyMain() {}

    public static void main(String[] arguments) {
        System.exit(Main.run(Fault.valueOf(arguments[0]), Arrays.copyOfRange(arguments, 1, arguments.length)));
    }
}
