package cedrat.oracle.maintenance;

import java.time.Duration;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.TypeConversionException;

/// Times as `30s`, `10m`, `2h`.
final class Times implements ITypeConverter<Duration> {
    private static final Pattern TIME = Pattern.compile("(\\d{1,9})(ms|s|m|h|d)");

    private static final Map<String, Duration> UNITS = Map.of(
            "ms", Duration.ofMillis(1),
            "s", Duration.ofSeconds(1),
            "m", Duration.ofMinutes(1),
            "h", Duration.ofHours(1),
            "d", Duration.ofDays(1));

    private static final Duration MAX = Duration.ofDays(365);

    Times() {}

    @Override
    public Duration convert(String text) {
        Matcher parts = TIME.matcher(text);
        Duration time = parts.matches() ? UNITS.get(parts.group(2)).multipliedBy(Long.parseLong(parts.group(1))) : MAX;
        if (time.isZero() || time.compareTo(MAX) >= 0) {
            throw new TypeConversionException(
                    "invalid time " + text + ": write a number and ms, s, m, h or d, for example 30s");
        }
        return time;
    }
}
