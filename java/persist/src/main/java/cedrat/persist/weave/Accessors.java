package cedrat.persist.weave;

import java.lang.classfile.ClassBuilder;
import java.lang.classfile.ClassFile;
import java.lang.classfile.CodeBuilder;
import java.lang.classfile.Label;
import java.lang.classfile.TypeKind;
import java.lang.classfile.attribute.StackMapFrameInfo;
import java.lang.classfile.attribute.StackMapFrameInfo.ObjectVerificationTypeInfo;
import java.lang.classfile.attribute.StackMapFrameInfo.VerificationTypeInfo;
import java.lang.classfile.attribute.StackMapTableAttribute;
import java.lang.constant.ClassDesc;
import java.lang.constant.MethodTypeDesc;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/// The methods by which a class reads reference fields, one for each field that it names:
///
/// ```text
/// private static T cedrat$read$N$field(Owner object) {
///     T value = object.field;
///     if (value != null || object.cedrat$identity == null) {
///         return value;
///     }
///     return (T) Barrier.readNull(object, number);
/// }
/// ```
///
/// - A reference field of a persistent object that is not loaded yet is null. So only a read of null has
///   to look further, at a value that is in a register already.
///
/// - Where reads are locked, `Barrier.lockToRead(base)` comes first: the value read, loaded or not, is none
///   that its writer may still roll back.
///
/// A class that is redefined (HotSwap) must have the same methods as before. So it gets those that it had, under their
/// names, and reads other fields in place: the call of a method of `Barrier` needs no branch.
///
/// A method costs a third of what the same instructions cost in place, because their stack would have to be
/// spilled around the branch. It has one branch target, whose frame is written by hand.
///
/// **Threads:** one.
final class Accessors {
    /// A field as an instruction names it.
    ///
    /// @param parameter what the method takes: the owner, or the reading class, which extends it
    /// @param isLocked  whether the object is locked before
    record Field(ClassDesc owner, String name, ClassDesc type, ClassDesc parameter, boolean isLocked) {
        MethodTypeDesc descriptor() {
            return MethodTypeDesc.of(type, parameter);
        }
    }

    private final FieldNumbers numbers;
    private final ClassDesc reader;
    private final Map<Field, String> names = new LinkedHashMap<>();

    /// Whether the class can have no further methods.
    private final boolean isComplete;

    /// @param reader the class that gets the methods
    /// @param known  the fields whose methods the class has, in their order, if it is redefined; otherwise null
    Accessors(FieldNumbers numbers, ClassDesc reader, List<Field> known) {
        this.numbers = numbers;
        this.reader = reader;
        isComplete = known != null;
        if (isComplete) {
            known.forEach(this::name);
        }
    }

    /// Returns the fields that have methods, in the order of their names.
    List<Field> all() {
        return List.copyOf(names.keySet());
    }

    /// Whether a field is read by a method.
    boolean mayHave(Field field) {
        return !isComplete || names.containsKey(field);
    }

    /// Returns the name of the method that reads a field. It ends with that of the field, for the stack trace of a
    /// `NullPointerException`: names of fields may have `<` and `>`, which names of methods may not.
    String name(Field field) {
        return names.computeIfAbsent(
                field,
                added -> "cedrat$read$" + names.size() + "$"
                        + added.name.replace('<', '_').replace('>', '_'));
    }

    /// Adds the methods to their class.
    void addTo(ClassBuilder builder) {
        int flags = ClassFile.ACC_PRIVATE | ClassFile.ACC_STATIC | ClassFile.ACC_SYNTHETIC;
        names.forEach(
                (field, name) -> builder.withMethodBody(name, field.descriptor(), flags, code -> read(code, field)));
    }

    /// … base → …, value, without a method.
    void readInPlace(CodeBuilder code, Field field) {
        if (isHidden(field)) {
            throw new IllegalArgumentException("it was redefined to read the field " + field.name
                    + ", whose type it cannot name: start the program again");
        }
        if (field.isLocked) {
            code.dup();
            Calls.lockToRead(code);
        }
        code.dup().getfield(field.owner, field.name, field.type);
        loadNumber(code, field);
        Calls.read(code);
        code.checkcast(field.type);
    }

    /// … → …, number
    private void loadNumber(CodeBuilder code, Field field) {
        String owner = field.owner.descriptorString();
        numbers.load(code, owner.substring(1, owner.length() - 1).replace('/', '.'), field.name, false);
    }

    private void read(CodeBuilder code, Field field) {
        // The message of a NullPointerException has this name.
        code.localVariable(0, "object", field.parameter, code.startLabel(), code.endLabel());
        if (field.isLocked) {
            code.aload(0);
            Calls.lockToRead(code);
        }
        if (field.type.isPrimitive()) {
            code.aload(0).getfield(field.owner, field.name, field.type).return_(TypeKind.from(field.type));
            return;
        }
        if (isHidden(field)) {
            readHidden(code, field);
            return;
        }
        Label found = code.newLabel();
        code.aload(0)
                .getfield(field.owner, field.name, field.type)
                .dup()
                .ifnonnull(found)
                .aload(0)
                .getfield(field.owner, Identities.FIELD, Identities.TYPE)
                .ifnull(found)
                .pop()
                .aload(0);
        loadNumber(code, field);
        Calls.readNull(code);
        code.checkcast(field.type).labelBinding(found).areturn();
        code.with(StackMapTableAttribute.of(List.of(StackMapFrameInfo.of(
                found,
                List.of(ObjectVerificationTypeInfo.of(field.parameter)),
                List.of(ObjectVerificationTypeInfo.of(field.type))))));
    }

    /// Whether the reader may not be able to name the field's type, which may be known in the owner's package only.
    private boolean isHidden(Field field) {
        String ofOwner = field.owner.packageName();
        ClassDesc type = field.type;
        while (type.isArray()) {
            type = type.componentType();
        }
        return type.isClassOrInterface()
                && type.packageName().equals(ofOwner)
                && !reader.packageName().equals(ofOwner);
    }

    /// A cast would have to name the type. So the field is read again once it is loaded, until it is not null any
    /// more: a thread that unloads objects may be faster. (No record is read so, of which a field that was null may
    /// be constant to the compiler: its fields are private.)
    private void readHidden(CodeBuilder code, Field field) {
        Label again = code.newBoundLabel();
        Label found = code.newLabel();
        Label none = code.newLabel();
        code.aload(0)
                .getfield(field.owner, field.name, field.type)
                .dup()
                .ifnonnull(found)
                .pop()
                .aload(0)
                .getfield(field.owner, Identities.FIELD, Identities.TYPE)
                .ifnull(none)
                .aload(0);
        loadNumber(code, field);
        Calls.readNull(code);
        code.ifnonnull(again)
                .labelBinding(none)
                .aconst_null()
                .areturn()
                .labelBinding(found)
                .areturn();
        List<VerificationTypeInfo> locals = List.of(ObjectVerificationTypeInfo.of(field.parameter));
        code.with(StackMapTableAttribute.of(List.of(
                StackMapFrameInfo.of(again, locals, List.of()),
                StackMapFrameInfo.of(none, locals, List.of()),
                StackMapFrameInfo.of(found, locals, List.of(ObjectVerificationTypeInfo.of(field.type))))));
    }
}
