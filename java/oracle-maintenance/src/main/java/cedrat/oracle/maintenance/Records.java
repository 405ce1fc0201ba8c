package cedrat.oracle.maintenance;

import java.time.Duration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.event.Level;
import org.slf4j.spi.LoggingEventBuilder;

/// Receives problems when they begin and when they end.
interface Records {
    /// A problem has begun.
    void began(Problem problem);

    /// A problem is over, after this time and number of failures.
    void ended(Problem problem, Duration time, long failures);

    /// The log of the process.
    Records LOG = new Records() {
        private static final Logger RECORDS = LoggerFactory.getLogger(Records.class);

        @Override
        public void began(Problem problem) {
            Problem.Kind kind = problem.kind();
            boolean isOutage = kind == Problem.Kind.ORACLE || kind == Problem.Kind.TABLES;
            LoggingEventBuilder record =
                    RECORDS.atLevel(isOutage ? Level.WARN : Level.ERROR).addKeyValue("problem", kind);
            if (kind == Problem.Kind.FAULT) {
                record = record.setCause(problem.failure());
            }
            record.log(problem.description());
        }

        @Override
        public void ended(Problem problem, Duration time, long failures) {
            RECORDS.atInfo()
                    .addKeyValue("problem", problem.kind())
                    .addKeyValue("seconds", time.toSeconds())
                    .addKeyValue("failures", failures)
                    .log("over: {}", problem.message());
        }
    };
}
