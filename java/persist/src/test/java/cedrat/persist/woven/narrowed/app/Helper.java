package cedrat.persist.woven.narrowed.app;

import cedrat.persist.woven.narrowed.model.Account;

/// Changes and reads included objects, and begins no transaction.
final class Helper {
    private Helper() {}

    static void add(Account account, int amount) {
        account.balance += amount;
    }

    static Account partner(Account account) {
        return account.partner;
    }
}
