package cedrat.samples.springboot;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;

/// The model: ordinary objects, which know neither Spring nor the store.
final class Bank {
    final Map<String, Account> accounts = new TreeMap<>();
    /// The orders that were carried out, by their ids, as the text that the client has sent.
    final Map<String, String> journal = new LinkedHashMap<>();

    static Bank ofFour() {
        Bank bank = new Bank();
        for (String owner : new String[] {"ada", "bob", "eve", "ken"}) {
            bank.accounts.put(owner, new Account(owner, 10_000));
        }
        return bank;
    }

    Account account(String owner) {
        Account account = accounts.get(owner);
        if (account == null) {
            throw new IllegalArgumentException("there is no account of " + owner);
        }
        return account;
    }
}
