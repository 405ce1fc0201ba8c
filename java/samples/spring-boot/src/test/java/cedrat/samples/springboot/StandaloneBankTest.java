package cedrat.samples.springboot;

import java.util.List;
import org.junit.jupiter.api.Test;

/// The bank as one file that contains the agent: no option starts it.
class StandaloneBankTest extends KilledBank {
    @Override
    String jar() {
        return System.getProperty("standalone.jar");
    }

    @Override
    List<String> agents() {
        return List.of();
    }

    @Test
    void jarStartsAgentItself() throws Exception {
        survive(3);
    }
}
