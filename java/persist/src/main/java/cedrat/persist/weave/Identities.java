package cedrat.persist.weave;

import java.lang.classfile.ClassBuilder;
import java.lang.classfile.ClassElement;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.lang.classfile.ClassTransform;
import java.lang.classfile.Interfaces;
import java.lang.classfile.attribute.ConstantValueAttribute;
import java.lang.classfile.constantpool.ClassEntry;
import java.lang.constant.ClassDesc;
import java.lang.constant.ConstantDescs;
import java.lang.constant.MethodTypeDesc;
import java.util.ArrayList;
import java.util.List;

/// Makes a class of the application [Persistable].
///
/// The topmost woven class of a hierarchy has the field; and since a class that has more members is another one
/// to serialisation, each that may be serialised keeps the `serialVersionUID` that it had.
///
/// **Threads:** any.
final class Identities implements ClassTransform {
    /// The field.
    static final String FIELD = "cedrat$identity";

    /// Its type.
    static final ClassDesc TYPE = ClassDesc.of("cedrat.persist.boot", "Identity");

    private static final ClassDesc PERSISTABLE = ClassDesc.of("cedrat.persist.boot", "Persistable");
    private static final String SERIAL_VERSION = "serialVersionUID";

    private final ClassModel original;
    private final boolean isTopmost;

    /// @param original the class as it was compiled
    Identities(ClassModel original, boolean isTopmost) {
        this.original = original;
        this.isTopmost = isTopmost;
    }

    @Override
    public void accept(ClassBuilder builder, ClassElement element) {
        if (isTopmost && element instanceof Interfaces own) {
            List<ClassEntry> interfaces = new ArrayList<>(own.interfaces());
            interfaces.add(builder.constantPool().classEntry(PERSISTABLE));
            builder.withInterfaces(interfaces);
        } else {
            builder.with(element);
        }
    }

    @Override
    public void atEnd(ClassBuilder builder) {
        if (isTopmost) {
            addIdentity(builder);
        }
        if (SerialVersion.isMissing(original)) {
            // If the class turns out not to be serialisable, it is an unused constant.
            int flags = ClassFile.ACC_PRIVATE | ClassFile.ACC_STATIC | ClassFile.ACC_FINAL | ClassFile.ACC_SYNTHETIC;
            long version = SerialVersion.of(original);
            builder.withField(SERIAL_VERSION, ConstantDescs.CD_long, field -> field.withFlags(flags)
                    .with(ConstantValueAttribute.of(version)));
        }
    }

    private void addIdentity(ClassBuilder builder) {
        builder.withField(FIELD, TYPE, ClassFile.ACC_PUBLIC | ClassFile.ACC_TRANSIENT | ClassFile.ACC_SYNTHETIC);
        ClassDesc self = original.thisClass().asSymbol();
        int flags = ClassFile.ACC_PUBLIC | ClassFile.ACC_FINAL | ClassFile.ACC_SYNTHETIC;
        builder.withMethodBody(FIELD, MethodTypeDesc.of(TYPE), flags, code -> code.aload(0)
                .getfield(self, FIELD, TYPE)
                .areturn());
        builder.withMethodBody(FIELD, MethodTypeDesc.of(ConstantDescs.CD_void, TYPE), flags, code -> code.aload(0)
                .aload(1)
                .putfield(self, FIELD, TYPE)
                .return_());
    }
}
