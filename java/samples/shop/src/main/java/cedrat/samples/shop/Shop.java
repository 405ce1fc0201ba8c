package cedrat.samples.shop;

import cedrat.persist.RwLock;
import cedrat.persist.Transaction;
import java.time.Instant;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/// Products, customers, and what was earned: ordinary objects, of which one has a name in the store.
final class Shop {
    final Map<String, Product> products = new TreeMap<>();
    final Map<String, Customer> customers = new TreeMap<>();
    long earnedCents;

    static Shop withGoods() {
        Shop shop = new Shop();
        for (Product product : List.of(
                new Product("lamp", 4_990, 10), new Product("table", 24_900, 3), new Product("chair", 7_900, 12))) {
            shop.products.put(product.name, product);
        }
        return shop;
    }

    /// Sells so many pieces of each product: all of it, or, if something has run out, nothing.
    ///
    /// @param beforeCommit what happens when all is changed and nothing is stored yet
    /// @return the order, or null
    Order sell(String customerName, Map<String, Integer> wanted, Runnable beforeCommit) {
        try (var transaction = Transaction.begin()) {
            RwLock.acquireWrite(this);
            Customer customer = customers.computeIfAbsent(customerName, Customer::new);
            List<Order.Line> lines = new ArrayList<>();
            for (Map.Entry<String, Integer> one : wanted.entrySet()) {
                Product product = products.get(one.getKey());
                RwLock.acquireWrite(product);
                product.inStock -= one.getValue();
                if (product.inStock < 0) {
                    return null; // rolled back: also the customer, and what was taken before
                }
                lines.add(new Order.Line(product, one.getValue()));
            }
            Order order = new Order(customer, Instant.now(), lines);
            customer.orders.add(order);
            earnedCents += order.cents();
            beforeCommit.run();
            transaction.commit();
            return order;
        }
    }

    /// Complains unless what was sold and what is there are what was there at first, and what was earned is the
    /// price of what was sold.
    void check() {
        Map<Product, Integer> sold = new IdentityHashMap<>();
        long cents = 0;
        for (Customer customer : customers.values()) {
            for (Order order : customer.orders) {
                if (order.customer() != customer) {
                    throw new IllegalStateException("an order of " + customer.name + " belongs to another customer");
                }
                order.lines().forEach(line -> sold.merge(line.product(), line.pieces(), Integer::sum));
                cents += order.cents();
            }
        }
        if (cents != earnedCents) {
            throw new IllegalStateException("earned " + earnedCents + " by orders of " + cents);
        }
        Shop atFirst = withGoods();
        products.forEach((name, product) -> {
            int pieces = product.inStock + sold.getOrDefault(product, 0);
            if (pieces != atFirst.products.get(name).inStock) {
                throw new IllegalStateException("there were " + pieces + " pieces of " + name);
            }
        });
    }
}
