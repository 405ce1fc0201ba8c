package cedrat.persist.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/// J3.2
class NestedArraysTest {
    private static List<Object> found(Object array) {
        List<Object> found = new ArrayList<>();
        NestedArrays.forEach(array, found::add);
        return found;
    }

    /// J3.2.
    @Test
    void arraysAreFoundHoweverDeep() {
        int[] ints = {1};
        Object[] inner = {"text", ints, null};
        Object[] outer = {inner, List.of(new int[1])};
        assertEquals(List.of(outer, inner, ints), found(outer));
        assertEquals(List.of("text"), found("text"));
        assertEquals(List.of(ints), found(ints));
    }

    /// J3.2.
    @Test
    void oneThatContainsItselfIsFoundOnce() {
        Object[] inner = {null};
        Object[] outer = {inner, inner};
        inner[0] = outer;
        assertEquals(List.of(outer, inner), found(outer));
    }

    /// Else there would be 2^40 ways.
    @Test
    void sharedArrayIsFoundOnce() {
        Object[] array = {};
        for (int depth = 0; depth < 40; depth++) {
            array = new Object[] {array, array};
        }
        assertEquals(41, found(array).size());
    }
}
