package cedrat.persist.woven.record;

import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;

/// An object of a class that the agent's argument excludes.
final class Excluded {
    int count;
    final List<String> list = new ArrayList<>();
    final TreeMap<String, Integer> map = new TreeMap<>();

    void add(String text) {
        count++;
        list.add(text);
        map.merge(text, 1, Integer::sum);
    }

    @Override
    public String toString() {
        return count + " " + list + " " + map;
    }

    static void addTo(List<String> list, String text) {
        list.add(text);
    }

    static void run(Runnable work) {
        work.run();
    }
}
