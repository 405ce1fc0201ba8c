package cedrat.persist.jdk;

import java.lang.constant.MethodTypeDesc;

/// Methods of the JDK whose calls are woven where reads are locked, because they read what has no barrier: the
/// receiver, if its class is kept or refused by [JavaBase], and arguments that are arrays or of such a class.
///
/// Reads that the static type of the call hides are not found: `Object.toString` of a date, for one.
public final class UnseenReads {
    private UnseenReads() {}

    /// Whether a method reads its receiver.
    public static boolean ofReceiver(String owner, String name) {
        return JavaBase.isChangedUnseen(owner) || owner.startsWith("[") && name.equals("clone");
    }

    /// Whether a method reads an argument.
    ///
    /// @param descriptor of the parameter
    public static boolean ofArgument(String owner, String name, int parameter, String descriptor) {
        if (!owner.startsWith("java/") && !owner.startsWith("javax/") && !owner.startsWith("sun/misc/Unsafe")) {
            return false;
        }
        if (isReadBy(owner, name)) {
            return parameter == 0 && isReference(descriptor);
        }
        return descriptor.equals("Ljava/lang/Object;") ? makesText(owner) : isRead(descriptor);
    }

    /// Whether a method reads any argument.
    public static boolean ofArguments(String owner, String name, MethodTypeDesc descriptor) {
        for (int i = 0; i < descriptor.parameterCount(); i++) {
            if (ofArgument(owner, name, i, descriptor.parameterType(i).descriptorString())) {
                return true;
            }
        }
        return false;
    }

    /// Whether a method reads what is in an array of arrays, however deep.
    public static boolean isDeep(String owner, String name) {
        return owner.equals("java/util/Arrays") && name.startsWith("deep")
                || owner.equals("java/util/Objects") && name.equals("deepEquals");
    }

    /// Whether something that is passed as of a type may change, and has no barriers where it is read.
    public static boolean isRead(String descriptor) {
        return descriptor.startsWith("[")
                || descriptor.equals("Ljava/lang/CharSequence;")
                || descriptor.startsWith("L")
                        && JavaBase.isChangedUnseen(descriptor.substring(1, descriptor.length() - 1));
    }

    private static boolean isReference(String descriptor) {
        return descriptor.startsWith("L") || descriptor.startsWith("[");
    }

    /// Whether a method reads a variable of its first argument: by reflection, or by a handle.
    private static boolean isReadBy(String owner, String name) {
        boolean reads = owner.equals("java/lang/reflect/Field")
                || owner.equals("java/lang/reflect/Array")
                || owner.equals("java/lang/invoke/VarHandle")
                || owner.equals("sun/misc/Unsafe")
                || owner.startsWith("java/util/concurrent/atomic/Atomic") && owner.endsWith("FieldUpdater");
        return reads && name.startsWith("get");
    }

    private static boolean makesText(String owner) {
        return switch (owner) {
            case "java/lang/String", "java/lang/StringBuilder", "java/lang/StringBuffer", "java/util/Objects" -> true;
            default -> false;
        };
    }
}
