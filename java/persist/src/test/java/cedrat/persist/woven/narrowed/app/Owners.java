package cedrat.persist.woven.narrowed.app;

import cedrat.persist.woven.narrowed.model.Account;

/// Reads a field of a subclass of an included class.
final class Owners {
    private Owners() {}

    static Account of(Savings savings) {
        return savings.owner;
    }
}
