package cedrat.persist.woven.narrowed.app;

import cedrat.persist.woven.narrowed.model.Account;

/// A class that is not woven.
final class Initialised {
    private static final boolean IS_DONE;

    static {
        Account.register();
        IS_DONE = true;
    }

    private Initialised() {}

    static boolean isDone() {
        return IS_DONE;
    }
}
