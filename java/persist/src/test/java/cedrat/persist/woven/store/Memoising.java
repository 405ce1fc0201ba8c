package cedrat.persist.woven.store;

import java.util.AbstractList;
import java.util.List;

/// An object with memo fields, which the agent's argument names: a hash code of what never changes, and a view.
final class Memoising {
    final String name;
    int count;
    int hash;
    List<Integer> view;

    Memoising(String name) {
        this.name = name;
    }

    @Override
    public int hashCode() {
        if (hash == 0) {
            hash = name.hashCode();
        }
        return hash;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Memoising memoising && memoising.name.equals(name);
    }

    /// Returns a list that has the count as its element.
    List<Integer> view() {
        if (view == null) {
            view = new Counts();
        }
        return view;
    }

    private final class Counts extends AbstractList<Integer> {
        @Override
        public Integer get(int index) {
            return count;
        }

        @Override
        public int size() {
            return 1;
        }
    }
}
