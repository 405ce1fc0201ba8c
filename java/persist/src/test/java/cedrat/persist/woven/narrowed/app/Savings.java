package cedrat.persist.woven.narrowed.app;

import cedrat.persist.woven.narrowed.model.Account;

/// A subclass of an included class.
final class Savings extends Account {
    int rate;
    Account owner;
}
