package cedrat.persist.record;

import cedrat.persist.lock.Unbroken;

/// A step of the end of a transaction, which the end of the stack does not break off.
final class EndStep<T> extends Unbroken {
    /// An action on a subject. It has no state of its own, so that it needs no memory.
    @FunctionalInterface
    interface Step<T> {
        void run(Transactions transactions, T subject);
    }

    private final Step<T> step;
    private final Transactions transactions;
    private final T subject;

    private EndStep(Step<T> step, Transactions transactions, T subject) {
        this.step = step;
        this.transactions = transactions;
        this.subject = subject;
    }

    @Override
    protected void work() {
        step.run(transactions, subject);
    }

    /// Runs a step.
    static <T> void run(Step<T> step, Transactions transactions, T subject) {
        EndStep<T> unbroken;
        try {
            unbroken = new EndStep<>(step, transactions, subject);
        } catch (OutOfMemoryError e) {
            // The step is needed then as well.
            step.run(transactions, subject);
            return;
        }
        unbroken.complete();
    }
}
