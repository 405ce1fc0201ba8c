package cedrat.persist.weave;

import java.lang.classfile.ClassBuilder;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.lang.classfile.CodeBuilder;
import java.lang.classfile.instruction.FieldInstruction;
import java.lang.classfile.instruction.InvokeDynamicInstruction;
import java.lang.constant.ClassDesc;
import java.lang.constant.ConstantDesc;
import java.lang.constant.DirectMethodHandleDesc;
import java.lang.constant.DirectMethodHandleDesc.Kind;
import java.lang.constant.DynamicCallSiteDesc;
import java.lang.constant.DynamicConstantDesc;
import java.lang.constant.MethodHandleDesc;
import java.lang.constant.MethodTypeDesc;
import java.lang.reflect.AccessFlag;
import java.util.List;

/// Puts calls of [Accessors] in place of the instructions of a class that read reference fields, and of its
/// constants that are handles of such fields, by which records compare and print their components.
///
/// Classes of the JDK have no barriers: their objects are loaded with all that they lead to.
///
/// **Threads:** one.
final class ReadWeaver {
    private final Classes classes;
    private final ClassLoader loader;
    private final ClassModel type;
    private final Accessors accessors;
    private final boolean locks;

    /// @param known the fields that the class reads by methods, if it is redefined; otherwise null
    ReadWeaver(
            FieldNumbers numbers, Classes classes, ClassLoader loader, ClassModel type, List<Accessors.Field> known) {
        this.classes = classes;
        this.loader = loader;
        this.type = type;
        accessors = new Accessors(numbers, type.thisClass().asSymbol(), known);
        locks = classes.locksReads();
    }

    /// Whether an instruction reads a field that may be pending.
    boolean isGuarded(FieldInstruction field) {
        return !field.typeSymbol().isPrimitive() && isPersistable(field.owner().asSymbol());
    }

    private boolean isPersistable(ClassDesc owner) {
        String descriptor = owner.descriptorString();
        return classes.isPersistable(loader, descriptor.substring(1, descriptor.length() - 1));
    }

    /// Whether objects of a class of the application cannot be persistent.
    boolean isNeverPersistent(String owner) {
        return classes.isNeverPersistent(loader, owner);
    }

    /// Whether an instruction names the superclass as the owner of a field. Is the field a protected one of
    /// another package, then only on objects of this class.
    boolean isOfSuperclass(FieldInstruction field) {
        return type.superclass().isPresent() && type.superclass().get().equals(field.owner());
    }

    /// … base → …, value
    ///
    /// @param isSelf whether the base is known to be an object of this class
    void read(CodeBuilder builder, FieldInstruction field, boolean isSelf) {
        ClassDesc owner = field.owner().asSymbol();
        var named = new Accessors.Field(
                owner,
                field.name().stringValue(),
                field.typeSymbol(),
                isSelf ? type.thisClass().asSymbol() : owner,
                isLocked(owner, field.name().stringValue()));
        if (!accessors.mayHave(named)) {
            accessors.readInPlace(builder, named);
            return;
        }
        builder.invokestatic(type.thisClass().asSymbol(), name(named), named.descriptor(), isInterface());
    }

    /// Whether an object is locked before a field of it is read. Final fields are written once.
    boolean isLocked(ClassDesc owner, String name) {
        return locks && !(owner.equals(type.thisClass().asSymbol()) && isFinal(name));
    }

    private boolean isFinal(String name) {
        return type.fields().stream()
                .anyMatch(
                        own -> own.fieldName().equalsString(name) && own.flags().has(AccessFlag.FINAL));
    }

    private boolean isInterface() {
        return type.flags().has(AccessFlag.INTERFACE);
    }

    /// @throws IllegalArgumentException if the class cannot have the method
    private String name(Accessors.Field field) {
        if (isInterface() && type.majorVersion() < ClassFile.JAVA_8_VERSION) {
            throw new IllegalArgumentException("its initialiser reads the field " + field.name()
                    + ", and an interface of Java 7 and before has no methods for that: compile it for a later Java");
        }
        return accessors.name(field);
    }

    /// A constant, or what does the same with barriers.
    ConstantDesc constant(ConstantDesc constant) {
        return switch (constant) {
            case DirectMethodHandleDesc handle -> isGuarded(handle) ? accessor(handle) : handle;
            case DynamicConstantDesc<?> made -> {
                for (ConstantDesc argument : made.bootstrapArgs()) {
                    if (constant(argument) != argument) {
                        throw new IllegalArgumentException("its dynamic constant " + made.constantName()
                                + " contains the handle of a field: read the field by a method");
                    }
                }
                yield made;
            }
            default -> constant;
        };
    }

    /// Whether a handle is guarded, also one of a primitive field: a handle, of whatever field, has the whole object
    /// loaded.
    private boolean isGuarded(DirectMethodHandleDesc handle) {
        return handle.kind() == Kind.GETTER && isPersistable(handle.owner());
    }

    private DirectMethodHandleDesc accessor(DirectMethodHandleDesc handle) {
        MethodTypeDesc descriptor = handle.invocationType();
        var named = new Accessors.Field(
                handle.owner(),
                handle.methodName(),
                descriptor.returnType(),
                descriptor.parameterType(0),
                isLocked(handle.owner(), handle.methodName()));
        if (!accessors.mayHave(named)) {
            throw new IllegalArgumentException(
                    "it was redefined, and got a handle of the field " + named.name() + ": start the program again");
        }
        Kind kind = isInterface() ? Kind.INTERFACE_STATIC : Kind.STATIC;
        return MethodHandleDesc.ofMethod(kind, type.thisClass().asSymbol(), name(named), descriptor);
    }

    /// A call site, with its constants replaced.
    DynamicCallSiteDesc site(InvokeDynamicInstruction instruction) {
        DynamicCallSiteDesc site = instruction.invokedynamic().asSymbol();
        ConstantDesc[] arguments = site.bootstrapArgs();
        boolean isChanged = false;
        for (int i = 0; i < arguments.length; i++) {
            ConstantDesc argument = constant(arguments[i]);
            isChanged |= argument != arguments[i];
            arguments[i] = argument;
        }
        return isChanged
                ? DynamicCallSiteDesc.of(
                        instruction.bootstrapMethod(), site.invocationName(), site.invocationType(), arguments)
                : site;
    }

    /// Adds what is called to the class.
    ///
    /// @return the fields that are read by methods
    List<Accessors.Field> addTo(ClassBuilder builder) {
        accessors.addTo(builder);
        return accessors.all();
    }
}
