package cedrat.bench.figures;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.stream.Collectors;

/// Measured figures, and their targets.
///
/// **Threads:** one at a time.
public final class Figures {
    /// One number. As JSON, a line that others read.
    record Figure(String bench, String system, Map<String, Object> params, String metric, double value, String unit) {
        String toJson() {
            String all = params.entrySet().stream()
                    .map(param -> "\"" + param.getKey() + "\":" + toJson(param.getValue()))
                    .collect(Collectors.joining(","));
            return String.format(
                    Locale.ROOT,
                    "{\"bench\":\"%s\",\"system\":\"%s\",\"params\":{%s},\"metric\":\"%s\",\"value\":%.4f,\"unit\":\"%s\"}",
                    bench,
                    system,
                    all,
                    metric,
                    value,
                    unit);
        }

        private static String toJson(Object value) {
            return value instanceof Number || value instanceof Boolean ? "" + value : "\"" + value + "\"";
        }

        @Override
        public String toString() {
            String all = params.entrySet().stream()
                    .map(param -> param.getKey() + "=" + param.getValue())
                    .collect(Collectors.joining(" "));
            return String.format(Locale.ROOT, "  %-10s  %-40s  %-25s  %,14.2f %s", system, all, metric, value, unit);
        }

        private boolean fits(String system, String metric, Map<String, Object> params) {
            return this.system.equals(system)
                    && this.metric.equals(metric)
                    && params.entrySet().stream()
                            .allMatch(param -> param.getValue().equals(this.params.get(param.getKey())));
        }
    }

    private final String bench;
    private final boolean json;
    private final List<Figure> all = new ArrayList<>();
    private final List<String> goals = new ArrayList<>();

    /// Figures of the `./x bench` with this name. They are printed when they are added: as JSON, or as text.
    public Figures(String bench, boolean json) {
        this.bench = bench;
        this.json = json;
    }

    /// One more.
    ///
    /// @param params numbers, booleans, or what has no quotes in it
    public void add(String system, Map<String, Object> params, String metric, double value, String unit) {
        Figure figure = new Figure(bench, system, params, metric, value, unit);
        all.add(figure);
        System.out.println(json ? figure.toJson() : figure);
    }

    /// The largest value of those with these parameters.
    public OptionalDouble best(String system, String metric, Map<String, Object> params) {
        return all.stream()
                .filter(figure -> figure.fits(system, metric, params))
                .mapToDouble(Figure::value)
                .max();
    }

    /// Returns one figure over another; empty if one of them was not measured.
    public static OptionalDouble ratio(OptionalDouble one, OptionalDouble other) {
        return one.isPresent() && other.isPresent()
                ? OptionalDouble.of(one.getAsDouble() / other.getAsDouble())
                : OptionalDouble.empty();
    }

    /// A goal: reached, if it is as large as this.
    public void atLeast(String what, OptionalDouble reached, double wanted) {
        goal(what, reached, "≥", wanted, reached.isPresent() && reached.getAsDouble() >= wanted);
    }

    /// A goal: reached, if it is as small as this.
    public void atMost(String what, OptionalDouble reached, double wanted) {
        goal(what, reached, "≤", wanted, reached.isPresent() && reached.getAsDouble() <= wanted);
    }

    private void goal(String what, OptionalDouble reached, String sense, double wanted, boolean holds) {
        String verdict = reached.isEmpty() ? "not measured" : holds ? "reached" : "MISSED";
        String value = reached.isEmpty() ? "-" : String.format(Locale.ROOT, "%,.2f", reached.getAsDouble());
        goals.add(
                String.format(Locale.ROOT, "%-12s  %12s  (wanted %s %,.2f)  %s", verdict, value, sense, wanted, what));
    }

    /// Prints the results against all goals: with the figures, or, if those are printed as JSON, beside them.
    public void printGoals() {
        goals.forEach(json ? System.err::println : System.out::println);
    }
}
