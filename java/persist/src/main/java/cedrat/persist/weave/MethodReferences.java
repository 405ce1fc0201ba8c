package cedrat.persist.weave;

import cedrat.persist.jdk.JavaBase;
import cedrat.persist.jdk.UnseenReads;
import cedrat.persist.jdk.WovenMethods;
import java.lang.classfile.Attributes;
import java.lang.classfile.ClassBuilder;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.lang.classfile.ClassTransform;
import java.lang.classfile.CodeBuilder;
import java.lang.classfile.CodeElement;
import java.lang.classfile.CodeModel;
import java.lang.classfile.CodeTransform;
import java.lang.classfile.MethodModel;
import java.lang.classfile.Opcode;
import java.lang.classfile.TypeKind;
import java.lang.classfile.constantpool.ConstantPool;
import java.lang.classfile.constantpool.InvokeDynamicEntry;
import java.lang.classfile.constantpool.PoolEntry;
import java.lang.classfile.instruction.InvokeDynamicInstruction;
import java.lang.constant.ConstantDesc;
import java.lang.constant.DirectMethodHandleDesc;
import java.lang.constant.DirectMethodHandleDesc.Kind;
import java.lang.constant.DynamicCallSiteDesc;
import java.lang.constant.MethodHandleDesc;
import java.lang.constant.MethodTypeDesc;
import java.lang.reflect.AccessFlag;
import java.util.ArrayList;
import java.util.List;

/// Turns references to methods whose calls are woven, as in `numbers.forEach(queue::add)`, into references to
/// methods of the class itself that call them: a reference has no call that a barrier could be put before.
final class MethodReferences {
    /// A method, and what its caller passes and gets.
    private record Called(DirectMethodHandleDesc handle, MethodTypeDesc descriptor) {}

    private final ClassFile classFile;
    private final ClassModel type;
    private final boolean locksReads;
    private final List<Called> called = new ArrayList<>();

    /// @param locksReads whether calls are woven that only read, to lock what they read
    MethodReferences(ClassFile classFile, ClassModel type, boolean locksReads) {
        this.classFile = classFile;
        this.type = type;
        this.locksReads = locksReads;
    }

    /// Whether the class has any such reference.
    boolean areThere() {
        ConstantPool pool = type.constantPool();
        for (PoolEntry entry : pool) {
            if (entry instanceof InvokeDynamicEntry site && isReplaced(site.asSymbol())) {
                return true;
            }
        }
        return false;
    }

    /// The class with references to its own methods.
    byte[] replaced() {
        ClassTransform references = (builder, element) -> {
            if (element instanceof MethodModel method && method.code().isPresent()) {
                builder.transformMethod(method, (methodBuilder, part) -> {
                    if (part instanceof CodeModel code) {
                        methodBuilder.transformCode(code, new Replacement(code));
                    } else {
                        methodBuilder.with(part);
                    }
                });
            } else {
                builder.with(element);
            }
        };
        return classFile.transformClass(type, references.andThen(ClassTransform.endHandler(this::addMethods)));
    }

    private final class Replacement implements CodeTransform {
        private final CodeModel code;

        private Replacement(CodeModel code) {
            this.code = code;
        }

        @Override
        public void atStart(CodeBuilder builder) {
            code.findAttribute(Attributes.stackMapTable()).ifPresent(builder);
        }

        @Override
        public void accept(CodeBuilder builder, CodeElement element) {
            if (element instanceof InvokeDynamicInstruction site
                    && isReplaced(site.invokedynamic().asSymbol())) {
                builder.invokedynamic(replace(site));
            } else {
                builder.with(element);
            }
        }
    }

    /// Serialisable ones are found by the name of their method again, and left alone.
    private boolean isReplaced(DynamicCallSiteDesc site) {
        MethodHandleDesc bootstrap = site.bootstrapMethod();
        if (!(bootstrap instanceof DirectMethodHandleDesc direct)
                || !direct.methodName().equals("metafactory")) {
            return false;
        }
        for (ConstantDesc argument : site.bootstrapArgs()) {
            if (argument instanceof DirectMethodHandleDesc handle && isWoven(handle)) {
                return true;
            }
        }
        return false;
    }

    private boolean isWoven(DirectMethodHandleDesc handle) {
        String owner = handle.owner().descriptorString();
        if (!handle.owner().isClassOrInterface()) {
            return false;
        }
        String internalName = owner.substring(1, owner.length() - 1);
        String name = handle.methodName();
        return stores(handle.kind(), internalName, name) || locksReads && reads(handle, internalName, name);
    }

    private static boolean stores(Kind kind, String internalName, String name) {
        return switch (kind) {
            case STATIC, INTERFACE_STATIC ->
                internalName.equals("java/lang/System") && name.equals("arraycopy")
                        || WovenMethods.mayChangeArguments(internalName, name, true);
            case VIRTUAL, INTERFACE_VIRTUAL ->
                JavaBase.changesReceiver(internalName, name)
                        || WovenMethods.isReflectiveCall(internalName, name)
                        || WovenMethods.mayChangeArguments(internalName, name, true)
                        || internalName.equals("java/lang/reflect/Field") && WovenMethods.isReflectiveStore(name);
            case CONSTRUCTOR -> WovenMethods.isRememberedAsMade(internalName);
            default -> false;
        };
    }

    /// Whether a call of the method reads its receiver or an argument without a barrier.
    private static boolean reads(DirectMethodHandleDesc handle, String internalName, String name) {
        boolean isCalled =
                switch (handle.kind()) {
                    case STATIC, INTERFACE_STATIC, VIRTUAL, INTERFACE_VIRTUAL, CONSTRUCTOR -> true;
                    default -> false;
                };
        boolean hasReceiver = handle.kind() == Kind.VIRTUAL || handle.kind() == Kind.INTERFACE_VIRTUAL;
        return isCalled
                && (hasReceiver && UnseenReads.ofReceiver(internalName, name)
                        || UnseenReads.ofArguments(
                                internalName, name, MethodTypeDesc.ofDescriptor(handle.lookupDescriptor())));
    }

    private DynamicCallSiteDesc replace(InvokeDynamicInstruction site) {
        DynamicCallSiteDesc old = site.invokedynamic().asSymbol();
        ConstantDesc[] arguments = old.bootstrapArgs();
        for (int i = 0; i < arguments.length; i++) {
            if (arguments[i] instanceof DirectMethodHandleDesc handle && isWoven(handle)) {
                MethodTypeDesc descriptor = handle.invocationType();
                if (old.invocationType().parameterCount() > 0) {
                    // The receiver is bound, and may be of a subtype, which a static method must say.
                    descriptor = descriptor.changeParameterType(
                            0, old.invocationType().parameterType(0));
                }
                boolean isInterface = type.flags().has(AccessFlag.INTERFACE);
                arguments[i] = MethodHandleDesc.ofMethod(
                        isInterface ? Kind.INTERFACE_STATIC : Kind.STATIC,
                        type.thisClass().asSymbol(),
                        name(called.size()),
                        descriptor);
                called.add(new Called(handle, descriptor));
            }
        }
        return DynamicCallSiteDesc.of(site.bootstrapMethod(), old.invocationName(), old.invocationType(), arguments);
    }

    private static String name(int number) {
        return "cedrat$" + number;
    }

    private void addMethods(ClassBuilder builder) {
        for (int i = 0; i < called.size(); i++) {
            Called one = called.get(i);
            int flags = ClassFile.ACC_PRIVATE | ClassFile.ACC_STATIC | ClassFile.ACC_SYNTHETIC;
            builder.withMethodBody(name(i), one.descriptor, flags, code -> call(code, one));
        }
    }

    private static void call(CodeBuilder code, Called called) {
        DirectMethodHandleDesc handle = called.handle;
        MethodTypeDesc invocation = called.descriptor;
        if (handle.kind() == Kind.CONSTRUCTOR) {
            code.new_(handle.owner()).dup();
        }
        for (int i = 0; i < invocation.parameterCount(); i++) {
            code.loadLocal(TypeKind.from(invocation.parameterType(i)), code.parameterSlot(i));
        }
        boolean isStatic = handle.kind() == Kind.STATIC || handle.kind() == Kind.INTERFACE_STATIC;
        Opcode opcode = isStatic
                ? Opcode.INVOKESTATIC
                : switch (handle.kind()) {
                    case CONSTRUCTOR -> Opcode.INVOKESPECIAL;
                    case VIRTUAL -> Opcode.INVOKEVIRTUAL;
                    default -> Opcode.INVOKEINTERFACE;
                };
        MethodTypeDesc descriptor = MethodTypeDesc.ofDescriptor(handle.lookupDescriptor());
        code.invoke(opcode, handle.owner(), handle.methodName(), descriptor, handle.isOwnerInterface())
                .return_(TypeKind.from(invocation.returnType()));
    }
}
