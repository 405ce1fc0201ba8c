package cedrat.samples.shop;

import java.time.Instant;
import java.util.List;

/// An order of a customer.
record Order(Customer customer, Instant when, List<Line> lines) {
    /// Number of pieces of a product.
    record Line(Product product, int pieces) {
        long cents() {
            return product.cents * pieces;
        }
    }

    long cents() {
        return lines.stream().mapToLong(Line::cents).sum();
    }
}
