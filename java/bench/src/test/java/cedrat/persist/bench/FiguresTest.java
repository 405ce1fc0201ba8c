package cedrat.persist.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.util.List;
import org.junit.jupiter.api.Test;

class FiguresTest {
    @Test
    void aMedianIsOneOfTheValues() {
        assertEquals(2.0, Medians.of(List.of(3.0, 1.0, 2.0)));
        assertEquals(2.0, Medians.of(List.of(9.0, 3.0, 1.0, 2.0)));
    }

    /// A kernel whose result did not depend on its work would be compiled to nothing.
    @Test
    void kernelsDoTheirWork() {
        Kernels kernels = new Kernels();
        assertEquals((1 << 14) * ((1 << 14) - 1) / 2, kernels.pointerChase());
        assertEquals(5, kernels.array()[5]);
        assertEquals(6, kernels.array()[5]);
        int before = kernels.statics();
        assertNotEquals(before, kernels.statics());
        assertEquals(256 * 255 / 2 * 7 + 4, kernels.arrayList());
        assertNotEquals(kernels.hashMap(), kernels.hashMap());
    }
}
