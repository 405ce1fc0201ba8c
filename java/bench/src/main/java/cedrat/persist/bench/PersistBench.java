package cedrat.persist.bench;

import picocli.CommandLine;
import picocli.CommandLine.Command;

/// `./x bench` of transactions over Java objects, a subcommand for each figure.
@Command(
        name = "bench",
        mixinStandardHelpOptions = true,
        subcommands = {BarrierFigure.class, JavacFigure.class, DebitCreditFigure.class, MapsFigure.class})
public final class PersistBench {
    private PersistBench() {}

    /// Measures.
    public static void main(String[] arguments) {
        System.exit(new CommandLine(new PersistBench()).execute(arguments));
    }
}
