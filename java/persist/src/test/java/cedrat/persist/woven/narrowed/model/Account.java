package cedrat.persist.woven.narrowed.model;

import java.util.ArrayList;
import java.util.List;

/// A persistent object.
public class Account {
    public static int registered;

    public int balance;
    public Account partner;
    public final List<String> history = new ArrayList<>();

    /// Takes money.
    public void deposit(int amount) {
        balance += amount;
        history.add("+" + amount);
    }

    /// Counts a class that uses this one.
    public static void register() {
        registered++;
    }

    @Override
    public String toString() {
        return balance + " " + history;
    }
}
