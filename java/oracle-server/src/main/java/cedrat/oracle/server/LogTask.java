package cedrat.oracle.server;

import cedrat.oracle.log.DamagedEntryException;
import cedrat.oracle.log.LogExistsException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.FileAlreadyExistsException;
import picocli.CommandLine;
import picocli.CommandLine.ParameterException;

/// Work of a command on a log, which returns the line to print.
interface LogTask {
    String run() throws IOException, DamagedEntryException;

    /// Runs it, prints the line or the reason of a failure, and returns the exit code.
    ///
    /// @param failure what could not be done, for the reason
    /// @throws ParameterException if the command is invalid
    static int run(CommandLine command, String failure, LogTask task) {
        try {
            command.getOut().println(task.run());
            command.getOut().flush();
            return 0;
        } catch (LogExistsException | FileAlreadyExistsException exists) {
            return failed(command, failure, exists, Main.EXIT_EXISTS);
        } catch (IOException | UncheckedIOException | DamagedEntryException problem) {
            return failed(command, failure, problem, Main.EXIT_CANNOT_START);
        } catch (IllegalArgumentException invalid) {
            throw new ParameterException(command, invalid.getMessage(), invalid);
        }
    }

    private static int failed(CommandLine command, String failure, Exception problem, int code) {
        command.getErr().println("cedrat-oracle: " + failure + ": " + problem.getMessage());
        command.getErr().flush();
        return code;
    }
}
