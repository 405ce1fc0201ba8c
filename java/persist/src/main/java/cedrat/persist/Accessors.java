package cedrat.persist;

import java.lang.classfile.ClassBuilder;
import java.lang.classfile.ClassFile;
import java.lang.classfile.CodeBuilder;
import java.lang.classfile.Label;
import java.lang.classfile.TypeKind;
import java.lang.classfile.attribute.StackMapFrameInfo;
import java.lang.classfile.attribute.StackMapFrameInfo.ObjectVerificationTypeInfo;
import java.lang.classfile.attribute.StackMapTableAttribute;
import java.lang.constant.ClassDesc;
import java.lang.constant.MethodTypeDesc;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/// The methods by which a class reads reference fields, one for each field that it names:
///
/// ```text
/// private static T cedrat$read$N(Owner base) {
///     T value = base.field;
///     if (value != null || base.cedrat$identity == null) {
///         return value;
///     }
///     return (T) Barrier.readNull(base, number);
/// }
/// ```
///
/// - J1  A reference field of a persistent object that is not loaded yet is null. So only who reads a null has
///       to look further, at a value that is in a register already.
///
/// A method costs a third of what the same instructions cost in place, because their stack would have to be
/// spilled around the branch. It has one branch target, whose frame is written by hand.
///
/// **Threads:** one.
final class Accessors {
    /// A field as an instruction names it.
    ///
    /// @param parameter what the method takes: the owner, or the reading class, which extends it
    record Field(ClassDesc owner, String name, ClassDesc type, ClassDesc parameter) {
        MethodTypeDesc descriptor() {
            return MethodTypeDesc.of(type, parameter);
        }
    }

    private final Fields fields;
    private final Map<Field, String> names = new LinkedHashMap<>();

    Accessors(Fields fields) {
        this.fields = fields;
    }

    /// The name of the method that reads a field.
    String name(Field field) {
        return names.computeIfAbsent(field, added -> "cedrat$read$" + names.size());
    }

    /// Adds the methods to their class.
    void addTo(ClassBuilder builder) {
        int flags = ClassFile.ACC_PRIVATE | ClassFile.ACC_STATIC | ClassFile.ACC_SYNTHETIC;
        names.forEach(
                (field, name) -> builder.withMethodBody(name, field.descriptor(), flags, code -> read(code, field)));
    }

    private void read(CodeBuilder code, Field field) {
        if (field.type.isPrimitive()) {
            code.aload(0).getfield(field.owner, field.name, field.type).return_(TypeKind.from(field.type));
            return;
        }
        String owner = field.owner.descriptorString();
        int number = fields.add(owner.substring(1, owner.length() - 1).replace('/', '.'), field.name, false);
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
        Calls.readNull(code, number);
        code.checkcast(field.type).labelBinding(found).areturn();
        code.with(StackMapTableAttribute.of(List.of(StackMapFrameInfo.of(
                found,
                List.of(ObjectVerificationTypeInfo.of(field.parameter)),
                List.of(ObjectVerificationTypeInfo.of(field.type))))));
    }
}
