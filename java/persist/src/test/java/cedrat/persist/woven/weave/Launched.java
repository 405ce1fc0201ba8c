package cedrat.persist.woven.weave;

import cedrat.persist.Transaction;
import java.util.ArrayList;
import java.util.List;

/// A program that rolls back, for other processes.
final class Launched {
    private static int count;

    private Launched() {}

    public static void main(String[] arguments) {
        List<String> list = new ArrayList<>();
        int local = 0;
        try (var transaction = Transaction.begin()) {
            count++;
            local++;
            list.add("lost");
            transaction.rollback();
        }
        System.out.println("count " + count + ", local " + local + ", list " + list);
    }
}
