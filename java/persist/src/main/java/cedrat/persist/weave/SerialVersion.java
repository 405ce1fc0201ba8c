package cedrat.persist.weave;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.classfile.Attributes;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.lang.classfile.FieldModel;
import java.lang.classfile.MethodModel;
import java.lang.classfile.attribute.InnerClassInfo;
import java.lang.constant.ConstantDescs;
import java.lang.reflect.AccessFlag;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Comparator;
import java.util.List;

/// The `serialVersionUID` of a class that does not declare one, as [java.io.ObjectStreamClass] computes it: from
/// a class file instead of the class, because a woven class has other members.
///
/// **Threads:** any.
final class SerialVersion {
    private static final int OF_CLASSES =
            ClassFile.ACC_PUBLIC | ClassFile.ACC_FINAL | ClassFile.ACC_INTERFACE | ClassFile.ACC_ABSTRACT;
    private static final int ACCESS = ClassFile.ACC_PUBLIC
            | ClassFile.ACC_PRIVATE
            | ClassFile.ACC_PROTECTED
            | ClassFile.ACC_STATIC
            | ClassFile.ACC_FINAL;
    private static final int OF_FIELDS = ACCESS | ClassFile.ACC_VOLATILE | ClassFile.ACC_TRANSIENT;
    private static final int OF_METHODS =
            ACCESS | ClassFile.ACC_SYNCHRONIZED | ClassFile.ACC_NATIVE | ClassFile.ACC_ABSTRACT | ClassFile.ACC_STRICT;
    private static final int HASHED = Long.BYTES;
    private static final MessageDigest SHA;

    static {
        try {
            SHA = MessageDigest.getInstance("SHA");
        } catch (NoSuchAlgorithmException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private SerialVersion() {}

    /// Whether a class has to be given one. Those of enums and records are 0 whatever they have; a class that
    /// extends and implements nothing is not serialised.
    static boolean isMissing(ClassModel type) {
        String superclass = superclass(type);
        boolean mayBeSerialised =
                !superclass.equals("java/lang/Object") || !type.interfaces().isEmpty();
        boolean isFixed = type.flags().has(AccessFlag.ENUM)
                || type.flags().has(AccessFlag.INTERFACE)
                || superclass.equals("java/lang/Enum")
                || superclass.equals("java/lang/Record");
        return mayBeSerialised
                && !isFixed
                && type.fields().stream().noneMatch(field -> field.fieldName().equalsString("serialVersionUID"));
    }

    private static String superclass(ClassModel type) {
        return type.superclass().map(name -> name.asInternalName()).orElse("");
    }

    /// Returns the version that `ObjectStreamClass` computes for a serialisable class.
    static long of(ClassModel type) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            write(out, type);
        } catch (IOException e) {
            throw new UncheckedIOException("memory cannot be written to", e);
        }
        byte[] digest = digest().digest(bytes.toByteArray());
        long version = 0;
        for (int i = HASHED - 1; i >= 0; i--) {
            version = version << Byte.SIZE | digest[i] & 0xFF;
        }
        return version;
    }

    /// Classes are woven under locks of class loaders, so no provider is looked for there.
    private static MessageDigest digest() {
        try {
            return (MessageDigest) SHA.clone();
        } catch (CloneNotSupportedException e) {
            throw new IllegalStateException("the JDK's own SHA can be cloned", e);
        }
    }

    private static void write(DataOutputStream out, ClassModel type) throws IOException {
        out.writeUTF(type.thisClass().asInternalName().replace('/', '.'));
        out.writeInt(modifiers(type) & OF_CLASSES);
        for (String name : type.interfaces().stream()
                .map(one -> one.asInternalName().replace('/', '.'))
                .sorted()
                .toList()) {
            out.writeUTF(name);
        }
        List<FieldModel> fields = type.fields().stream()
                .sorted(Comparator.comparing(field -> field.fieldName().stringValue()))
                .toList();
        for (FieldModel field : fields) {
            int flags = field.flags().flagsMask() & OF_FIELDS;
            boolean isPrivate = (flags & ClassFile.ACC_PRIVATE) != 0;
            if (!isPrivate || (flags & (ClassFile.ACC_STATIC | ClassFile.ACC_TRANSIENT)) == 0) {
                out.writeUTF(field.fieldName().stringValue());
                out.writeInt(flags);
                out.writeUTF(field.fieldType().stringValue());
            }
        }
        if (type.methods().stream().anyMatch(method -> method.methodName().equalsString("<clinit>"))) {
            out.writeUTF("<clinit>");
            out.writeInt(ClassFile.ACC_STATIC);
            out.writeUTF("()V");
        }
        writeMethods(out, type, true);
        writeMethods(out, type, false);
    }

    private static void writeMethods(DataOutputStream out, ClassModel type, boolean areConstructors)
            throws IOException {
        List<MethodModel> methods = type.methods().stream()
                .filter(method -> !method.methodName().equalsString(ConstantDescs.CLASS_INIT_NAME))
                .filter(method -> method.methodName().equalsString(ConstantDescs.INIT_NAME) == areConstructors)
                .filter(method -> !method.flags().has(AccessFlag.PRIVATE))
                .sorted(Comparator.comparing(
                                (MethodModel method) -> method.methodName().stringValue())
                        .thenComparing(method -> method.methodType().stringValue()))
                .toList();
        for (MethodModel method : methods) {
            out.writeUTF(method.methodName().stringValue());
            out.writeInt(method.flags().flagsMask() & OF_METHODS);
            out.writeUTF(method.methodType().stringValue().replace('/', '.'));
        }
    }

    /// A class within another one has the modifiers that it was declared with there.
    private static int modifiers(ClassModel type) {
        return type.findAttribute(Attributes.innerClasses()).stream()
                .flatMap(inner -> inner.classes().stream())
                .filter(inner -> inner.innerClass().equals(type.thisClass()))
                .mapToInt(InnerClassInfo::flagsMask)
                .findFirst()
                .orElse(type.flags().flagsMask());
    }
}
