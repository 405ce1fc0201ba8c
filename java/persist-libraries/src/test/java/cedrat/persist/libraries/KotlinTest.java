package cedrat.persist.libraries;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.jetbrains.kotlin.cli.common.ExitCode;
import org.jetbrains.kotlin.cli.jvm.K2JVMCompiler;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// J1, J6: a program that the compiler of Kotlin has made, which keeps objects in a store.
class KotlinTest {
    @TempDir
    Path folder;

    @Test
    void scopesOfUseAreTransactions() throws Exception {
        compile(Path.of("src/test/kotlin/Transfers.kt"));
        assertEquals("65 35 [40]", run("create"));
        assertEquals("30 70 [40, 40]", run("open"));
    }

    private void compile(Path file) {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        ExitCode code = new K2JVMCompiler()
                .exec(
                        new PrintStream(said, true, StandardCharsets.UTF_8),
                        "-no-stdlib",
                        "-no-reflect",
                        "-cp",
                        System.getProperty("java.class.path"),
                        "-d",
                        folder.resolve("classes").toString(),
                        file.toString());
        assertEquals(ExitCode.OK, code, () -> said.toString(StandardCharsets.UTF_8));
    }

    private String run(String mode) throws IOException, InterruptedException {
        String classPath = folder.resolve("classes") + File.pathSeparator + System.getProperty("java.class.path");
        return AgentCommand.lastLine(
                classPath, "TransfersKt", folder.resolve("store").toString(), mode);
    }
}
