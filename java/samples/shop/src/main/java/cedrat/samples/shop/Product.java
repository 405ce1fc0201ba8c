package cedrat.samples.shop;

/// A product of the shop.
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
