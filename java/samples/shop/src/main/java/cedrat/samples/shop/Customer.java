package cedrat.samples.shop;

import java.util.ArrayList;
import java.util.List;

/// A customer. A customer knows the orders, and an order its customer.
final class Customer {
    final String name;
    final List<Order> orders = new ArrayList<>();

    Customer(String name) {
        this.name = name;
    }
}
