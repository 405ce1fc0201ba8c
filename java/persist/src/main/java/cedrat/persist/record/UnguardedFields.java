package cedrat.persist.record;

import cedrat.persist.memory.Slot;

/// Fields that code without barriers assigns to, because the agent's argument `include` leaves their class out.
///
/// - In a transaction, woven code assigns to no such field of an object that is older than the transaction: after a
///   rollback the object would have some changes, and not others. It throws before the object is locked.
///
/// **Threads:** any.
final class UnguardedFields {
    private final Callers callers;

    UnguardedFields(Callers callers) {
        this.callers = callers;
    }

    /// Whether an assignment to a field is recorded. It is not if it belongs to no transaction.
    ///
    /// @throws UnsupportedOperationException if the program makes it, and other code makes some without barriers
    boolean isKept(Slot.Field field) {
        if (field.hasBarriers) {
            return true;
        }
        if (callers.areOutside()) {
            return false;
        }
        throw refusal("the field " + name(field), field);
    }

    /// As that, of a change of an object as a whole, which a method of the JDK may make.
    ///
    /// - The exception may end that method in the middle of a change. Then the transaction is only rolled back.
    boolean areKept(TransactionLevel transaction, Object base, Slot.Fields fields) {
        Slot.Field field = fields.unguarded();
        if (field == null) {
            return true;
        }
        if (callers.areOutside()) {
            return false;
        }
        transaction.isBroken |= extendsJdk(base.getClass());
        throw refusal(
                "an object of " + base.getClass().getName() + ", which has the field " + name(field) + ",", field);
    }

    private static boolean extendsJdk(Class<?> type) {
        Class<?> ancestor = type;
        while (ancestor.getClassLoader() != null) {
            ancestor = ancestor.getSuperclass();
        }
        return ancestor != Object.class;
    }

    private static String name(Slot.Field field) {
        return field.reflected.getDeclaringClass().getName() + "." + field.reflected.getName();
    }

    private UnsupportedOperationException refusal(String changed, Slot.Field field) {
        String type = field.reflected.getDeclaringClass().getName();
        return new UnsupportedOperationException("cannot change " + changed + " in a transaction, in " + callers.place()
                + ": a rollback would restore only a part of the object, because not all code that changes objects of "
                + type + " has barriers. Add the class or its package to include=… in the agent's argument, create the "
                + "object in the transaction, or change it outside of transactions. If its changes need no rollback, "
                + "name the class that changes it in infrastructure=…");
    }
}
