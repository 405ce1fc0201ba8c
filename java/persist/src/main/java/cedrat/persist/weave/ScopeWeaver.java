package cedrat.persist.weave;

import java.lang.classfile.CodeBuilder;
import java.lang.classfile.CodeElement;
import java.lang.classfile.CodeTransform;
import java.lang.classfile.Instruction;
import java.lang.classfile.Label;
import java.lang.classfile.TypeKind;
import java.lang.constant.ClassDesc;
import java.lang.constant.ConstantDescs;
import java.lang.constant.MethodTypeDesc;
import java.util.ArrayList;
import java.util.List;

/// Makes a method keep the locals that its transactions change, and restore them after a rollback: at each
/// call of `rollback`, and where the scope closes if it was rolled back otherwise.
final class ScopeWeaver implements CodeTransform {
    private static final ClassDesc TRANSACTION = ClassDesc.of("cedrat.persist", "Transaction");
    private static final MethodTypeDesc CLOSE = MethodTypeDesc.of(ConstantDescs.CD_boolean, TRANSACTION);
    private static final MethodTypeDesc CLOSE_FINALLY = MethodTypeDesc.of(
            ConstantDescs.CD_boolean, ClassDesc.of("java.lang.AutoCloseable"), ConstantDescs.CD_Throwable);
    private static final MethodTypeDesc ROLLBACK = MethodTypeDesc.of(ConstantDescs.CD_void, TRANSACTION);

    private final Scopes scopes;
    /// For each transaction, where the old values of its locals are.
    private final List<int[]> copies = new ArrayList<>();
    private int instruction;

    ScopeWeaver(Scopes scopes) {
        this.scopes = scopes;
    }

    @Override
    public void accept(CodeBuilder builder, CodeElement element) {
        if (!(element instanceof Instruction)) {
            builder.with(element);
            return;
        }
        int at = instruction++;
        int begun = scopes.begin(at);
        int closed = scopes.closed(at);
        int rolledBack = scopes.rolledBack(at);
        if (closed != 0 && hasLocals(closed)) {
            Label kept = builder.newLabel();
            if (scopes.isKotlinsClose(at)) {
                builder.invokestatic(Calls.REPLACEMENT, "closeFinally", CLOSE_FINALLY);
            } else {
                builder.invokestatic(Calls.REPLACEMENT, "close", CLOSE);
            }
            builder.ifeq(kept);
            restore(builder, closed);
            builder.labelBinding(kept);
        } else if (rolledBack != 0 && hasLocals(rolledBack)) {
            builder.invokestatic(Calls.REPLACEMENT, "rollback", ROLLBACK);
            restore(builder, rolledBack);
        } else {
            builder.with(element);
        }
        if (begun != 0) {
            save(builder, begun);
        }
    }

    private boolean hasLocals(int site) {
        return !scopes.locals(site).isEmpty();
    }

    /// The calls of `begin` come in their order.
    private void save(CodeBuilder builder, int site) {
        List<Scopes.Local> locals = scopes.locals(site);
        int[] slots = new int[locals.size()];
        for (int i = 0; i < slots.length; i++) {
            TypeKind kind = kind(locals.get(i));
            slots[i] = builder.allocateLocal(kind);
            builder.loadLocal(kind, locals.get(i).slot()).storeLocal(kind, slots[i]);
        }
        copies.add(slots);
    }

    private void restore(CodeBuilder builder, int site) {
        List<Scopes.Local> locals = scopes.locals(site);
        int[] slots = copies.get(site - 1);
        for (int i = 0; i < slots.length; i++) {
            TypeKind kind = kind(locals.get(i));
            builder.loadLocal(kind, slots[i]).storeLocal(kind, locals.get(i).slot());
        }
    }

    private static TypeKind kind(Scopes.Local local) {
        return switch (local.kind()) {
            case 'I' -> TypeKind.INT;
            case 'J' -> TypeKind.LONG;
            case 'F' -> TypeKind.FLOAT;
            case 'D' -> TypeKind.DOUBLE;
            default -> TypeKind.REFERENCE;
        };
    }
}
