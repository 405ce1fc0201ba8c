package cedrat.oracle.bench;

import java.util.Locale;

/// Prints figures: one JSON object a line.
record Figures(String system, String params) {
    void print(String metric, double value, String unit) {
        System.out.printf(
                Locale.ROOT,
                "{\"bench\":\"oracle\",\"system\":\"%s\",\"params\":{%s},\"metric\":\"%s\",\"value\":%.4f,\"unit\":\"%s\"}%n",
                system,
                params,
                metric,
                value,
                unit);
    }
}
