package cedrat.samples.shop;

/// What the shop sells.
final class Product {
    final String name;
    final long cents;
    int inStock;

    Product(String name, long cents, int inStock) {
        this.name = name;
        this.cents = cents;
        this.inStock = inStock;
    }
}
