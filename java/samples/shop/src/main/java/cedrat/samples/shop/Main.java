package cedrat.samples.shop;

import cedrat.persist.Store;
import java.nio.file.Path;
import java.util.Map;

/// `FOLDER` opens the shop in a folder and sells something; `FOLDER crash` dies while it sells: the stock is
/// less, the order is there and the money is earned, but nothing is committed.
final class Main {
    private static final int POWER_CUT = 3;

    private Main() {}

    /// Opens for a day.
    public static void main(String[] arguments) {
        boolean isToCrash = arguments.length > 1 && arguments[1].equals("crash");
        try (var store = Store.open(Path.of(arguments[0]))) {
            Shop shop = store.root("shop", Shop.class, Shop::withGoods);
            shop.check();
            System.out.println("so far " + shop.earnedCents + " cents earned, of " + shop.customers.keySet());
            shop.sell("Ada", Map.of("lamp", 1, "chair", 2), () -> {});
            Order tooMuch = shop.sell("Bob", Map.of("table", 4), () -> {});
            System.out.println("four tables: " + (tooMuch == null ? "refused" : "sold"));
            shop.sell("Grace", Map.of("table", 1), () -> {
                if (isToCrash) {
                    System.out.println("crash, with " + shop.earnedCents + " cents in memory");
                    Runtime.getRuntime().halt(POWER_CUT);
                }
            });
            shop.check();
            System.out.println("now " + shop.earnedCents + " cents earned, of " + shop.customers.keySet());
        }
    }
}
