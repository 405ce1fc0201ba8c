package cedrat.samples.shop;

import java.time.Instant;
import java.util.List;

/// What a customer has ordered.
record Order(Customer customer, Instant when, List<Line> lines) {
    /// So many pieces of a product.
    record Line(Product product, int pieces) {
        long cents() {
            return product.cents * pieces;
        }
    }

    long cents() {
        return lines.stream().mapToLong(Line::cents).sum();
    }
}
