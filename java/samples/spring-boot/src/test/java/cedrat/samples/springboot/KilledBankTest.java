package cedrat.samples.springboot;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/// The bank with the agent of the command line, beside JaCoCo's.
class KilledBankTest extends KilledBank {
    @Override
    String jar() {
        return System.getProperty("bank.jar");
    }

    @Override
    List<String> agents() {
        String coverage = folder.resolve("jacoco.exec").toString();
        return List.of(
                "-javaagent:" + System.getProperty("cedrat.agent") + "=exclude=org.springframework",
                "-javaagent:" + jacoco() + "=includes=cedrat.samples.*,destfile=" + coverage,
                "--enable-native-access=ALL-UNNAMED");
    }

    private static String jacoco() {
        for (String path : System.getProperty("java.class.path").split(":")) {
            if (path.contains("org.jacoco.agent") && Files.exists(Path.of(path))) {
                return path;
            }
        }
        throw new AssertionError("JaCoCo's agent is not on the class path");
    }

    @Test
    void modelSurvivesKills() throws Exception {
        survive(20);
        assertTrue(hasRefused(), "none was refused");
    }

    @Test
    @Tag("soak")
    void modelSurvivesTwoHundredKills() throws Exception {
        survive(200);
        assertTrue(hasRefused(), "none was refused");
    }
}
