package cedrat.persist.woven.record;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/// An object of a class that the agent's argument names as infrastructure.
final class Logbook {
    static int all;

    int count;
    private final List<String> lines = new ArrayList<>();
    private final int[] lengths = new int[3];
    private final StringBuilder text = new StringBuilder();
    private final AtomicInteger number = new AtomicInteger();
    private final ThreadLocal<String> last = new ThreadLocal<>();

    void add(String line) {
        all++;
        count++;
        lines.add(line);
        lengths[0] += line.length();
        System.arraycopy(lengths, 0, lengths, 1, 1);
        Arrays.fill(lengths, 2, 3, 7);
        text.append(line);
        number.incrementAndGet();
        last.set(line);
    }

    static void set(int[] numbers, int value) {
        numbers[0] = value;
    }

    @Override
    public String toString() {
        return count + " " + lines + " " + Arrays.toString(lengths) + " " + text + " " + number + " " + last.get();
    }
}
