package cedrat.persist.weave;

import cedrat.persist.jdk.JavaBase;
import cedrat.persist.jdk.PartTypes;
import cedrat.persist.jdk.StaticState;
import cedrat.persist.jdk.UnseenReads;
import cedrat.persist.jdk.WovenMethods;
import cedrat.persist.weave.code.FreshArrays;
import cedrat.persist.weave.code.InstructionEffects;
import cedrat.persist.weave.code.ParameterFlow;
import cedrat.persist.weave.code.Probes;
import java.lang.classfile.Attributes;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.lang.classfile.CodeBuilder;
import java.lang.classfile.CodeElement;
import java.lang.classfile.CodeModel;
import java.lang.classfile.CodeTransform;
import java.lang.classfile.Instruction;
import java.lang.classfile.MethodModel;
import java.lang.classfile.Opcode;
import java.lang.classfile.TypeKind;
import java.lang.classfile.constantpool.ClassEntry;
import java.lang.classfile.instruction.ArrayLoadInstruction;
import java.lang.classfile.instruction.ArrayStoreInstruction;
import java.lang.classfile.instruction.ConstantInstruction.LoadConstantInstruction;
import java.lang.classfile.instruction.FieldInstruction;
import java.lang.classfile.instruction.InvokeDynamicInstruction;
import java.lang.classfile.instruction.InvokeInstruction;
import java.lang.classfile.instruction.NewMultiArrayInstruction;
import java.lang.classfile.instruction.NewObjectInstruction;
import java.lang.classfile.instruction.NewPrimitiveArrayInstruction;
import java.lang.classfile.instruction.NewReferenceArrayInstruction;
import java.lang.classfile.instruction.ReturnInstruction;
import java.lang.constant.ClassDesc;
import java.lang.constant.ConstantDesc;
import java.lang.constant.ConstantDescs;
import java.lang.constant.MethodTypeDesc;
import java.lang.reflect.AccessFlag;
import java.util.Arrays;
import java.util.BitSet;
import java.util.function.Consumer;
import java.util.stream.IntStream;

/// Puts barriers into one method: before stores to fields and arrays, before calls of the JDK that store
/// behind the barriers' back, after the making of objects and arrays, and where reference fields are read.
///
/// In the collections of the JDK all fields of an object are kept at its first store, by a call that takes
/// five bytes: were `HashMap.putVal` longer than what the just-in-time compiler inlines, each `put` would
/// cost twice as much. It is one byte too long even so if its stores to arrays stay in place, so in that class
/// they are in the barrier. Were they in other classes, whose arrays are of many types, the compiler would find
/// that the type of an array in the barrier cannot be foretold, and look it up at each store. A store by which a
/// collection comes to be made of something more also says what that is.
///
/// - A collection of the JDK is held until a method of it that others call returns. The just-in-time
///   compiler holds it only up to its last use, so the virtual machine could collect it while the method
///   stores to its array, or to the map that a set is made of. Their owner would then be unknown, and the
///   assignment would be lost.
///   The methods that such a method calls are held by it, and stay as long as they are.
///
/// Barriers are calls without branches, see [Weaver].
final class StoreWeaver implements CodeTransform {
    private static final int ENDED = -1;
    /// Class of the bootstrap methods of string concatenation.
    private static final ClassDesc CONCATENATION = ClassDesc.of("java.lang.invoke", "StringConcatFactory");

    private final FieldNumbers numbers;
    private final Classes classes;
    private final ClassModel type;
    private final MethodModel method;
    private final CodeModel code;
    /// Weaver of reads, or null: they are not woven.
    private final ReadWeaver reads;
    /// Whether what is read is locked.
    private final boolean locksReads;
    /// Whether the method locks `this` at its beginning, and so all that it reads: a method of `HashMap` reads only
    /// the table and the entries of its own map. With a lock at each read, `putVal` would be too long for
    /// inlining.
    private final boolean locksAtStart;

    private final boolean isApplication;
    /// Whether what the method changes belongs to no transaction, unless it is persistent.
    private final boolean isInfrastructure;
    private final boolean isHashMap;
    /// Whether it reads the tables of `HashMap`, whose elements may not be loaded.
    private final boolean readsTables;
    /// Whether it is the method that adds entries to a `HashMap`.
    private final boolean isPut;
    /// Whether it is a method of `HashMap` that calls that one, with a hash that it computes just before.
    private final boolean callsPut;
    /// Whether the elements of arrays that it stores to are entries.
    private final boolean isTable;
    /// Whether it calls collections that others have made.
    private final boolean isWrapper;
    /// Whether `this` is held to the end of the method.
    private final boolean isHeld;
    private final Spill spill = new Spill();

    /// Number of objects that are made in a constructor's prologue and not initialised yet, or ENDED behind it.
    private int prologueDepth;

    private ParameterFlow prologue;
    private ParameterFlow parameters;
    private BitSet probes;
    private BitSet fresh;
    /// The number of the next instruction.
    private int at;

    StoreWeaver(
            FieldNumbers numbers,
            Classes classes,
            ClassModel type,
            MethodModel method,
            CodeModel code,
            Weaver.Kind kind,
            ReadWeaver reads,
            boolean locksReads) {
        this.numbers = numbers;
        this.classes = classes;
        this.type = type;
        this.method = method;
        this.code = code;
        this.reads = reads;
        this.locksReads = locksReads;
        isApplication = kind == Weaver.Kind.APPLICATION;
        isInfrastructure =
                isApplication && classes.isInfrastructure(type.thisClass().asInternalName());
        isHashMap = type.thisClass().asInternalName().equals("java/util/HashMap");
        isPut = isHashMap && method.methodName().equalsString("putVal");
        callsPut = isHashMap && calls(code, "putVal");
        readsTables = !isPut && isOfHashMap(type) && !method.methodName().equalsString("comparableClassFor");
        isTable = PartTypes.isOfTable(type.thisClass().asInternalName());
        isWrapper = isApplication || WovenMethods.isWrapper(type.thisClass().asInternalName());
        boolean isConstructor = method.methodName().equalsString(ConstantDescs.INIT_NAME);
        prologueDepth = isConstructor ? 0 : ENDED;
        locksAtStart = locksReads && isHashMap && !isConstructor && !isStatic(method) && reads(code);
        isHeld = kind == Weaver.Kind.COLLECTION && !isConstructor && isOpen(method) && changes(code);
    }

    private static boolean calls(CodeModel code, String name) {
        return code.elementStream()
                .anyMatch(element ->
                        element instanceof InvokeInstruction call && call.name().equalsString(name));
    }

    private static boolean isOfHashMap(ClassModel type) {
        String name = type.thisClass().asInternalName();
        return name.equals("java/util/HashMap") || name.startsWith("java/util/HashMap$");
    }

    /// Whether code that has an object may call the method. Others are called by such methods of the same collection.
    private static boolean isOpen(MethodModel method) {
        return !isStatic(method)
                && (method.flags().has(AccessFlag.PUBLIC) || method.flags().has(AccessFlag.PROTECTED));
    }

    private static boolean isStatic(MethodModel method) {
        return method.flags().has(AccessFlag.STATIC);
    }

    /// Whether code reads a field or an element itself.
    private static boolean reads(CodeModel code) {
        return code.elementStream()
                .anyMatch(element -> element instanceof ArrayLoadInstruction
                        || element instanceof FieldInstruction field && field.opcode() == Opcode.GETFIELD);
    }

    /// Whether code may store to something: by itself, or by what it calls.
    private static boolean changes(CodeModel code) {
        return code.elementStream()
                .anyMatch(element -> element instanceof InvokeInstruction
                        || element instanceof InvokeDynamicInstruction
                        || element instanceof ArrayStoreInstruction
                        || element instanceof FieldInstruction field && field.opcode() == Opcode.PUTFIELD);
    }

    @Override
    public void atStart(CodeBuilder builder) {
        code.findAttribute(Attributes.stackMapTable()).ifPresent(builder);
        if (locksAtStart) {
            builder.aload(0);
            Calls.lockToRead(builder);
        }
    }

    @Override
    public void accept(CodeBuilder builder, CodeElement element) {
        weave(builder, element);
        if (element instanceof Instruction) {
            at++;
        }
    }

    private void weave(CodeBuilder builder, CodeElement element) {
        switch (element) {
            case FieldInstruction field -> field(builder, field);
            case ArrayStoreInstruction store -> element(builder, store);
            case ArrayLoadInstruction load -> load(builder, load);
            case InvokeInstruction call -> call(builder, call);
            case InvokeDynamicInstruction site
            when reads != null -> {
                if (locksReads && site.bootstrapMethod().owner().equals(CONCATENATION)) {
                    lockArguments(
                            builder,
                            site.typeSymbol(),
                            (parameter, type) -> UnseenReads.isRead(type),
                            Calls::lockToRead);
                }
                builder.invokedynamic(reads.site(site));
            }
            case LoadConstantInstruction constant
            when reads != null -> {
                ConstantDesc value = reads.constant(constant.constantValue());
                if (value == constant.constantValue()) {
                    builder.with(constant);
                } else {
                    builder.loadConstant(value);
                }
            }
            case NewObjectInstruction made -> {
                if (prologueDepth != ENDED) {
                    prologueDepth++;
                }
                builder.with(made);
            }
            case NewPrimitiveArrayInstruction made -> made(builder, made);
            case NewReferenceArrayInstruction made -> made(builder, made);
            case NewMultiArrayInstruction made -> made(builder, made);
            case ReturnInstruction end
            when isHeld -> {
                builder.aload(0);
                Calls.hold(builder);
                builder.with(end);
            }
            default -> builder.with(element);
        }
    }

    private static void made(CodeBuilder builder, CodeElement making) {
        builder.with(making).dup();
        Calls.made(builder);
    }

    // ---- fields

    private void field(CodeBuilder builder, FieldInstruction field) {
        if (field.opcode() == Opcode.GETFIELD && reads != null && reads.isGuarded(field)) {
            reads.read(builder, field, reads.isOfSuperclass(field) && isOfThisClass());
            return;
        }
        boolean isLocked = locksReads && !locksAtStart && !isFinal(field) && !isNeverPersistent(field);
        if (field.opcode() == Opcode.GETFIELD && isLocked) {
            builder.dup();
            Calls.lockToRead(builder);
        }
        if (field.opcode() == Opcode.PUTFIELD && !isExempt(field)) {
            if (!isApplication && PartTypes.mayBe(field.type().stringValue())) {
                Calls.beforeLink(builder.dup2());
                builder.with(field);
                return;
            }
            if (TypeKind.from(field.typeSymbol()).slotSize() == 2) {
                builder.dup2_x1().pop2().dup_x2(); // base, value → base, value, base
            } else {
                builder.dup2().pop();
            }
            if (isApplication) {
                if (isOfInfrastructure(field)) {
                    Calls.ifPersistent(builder);
                }
                beforeField(builder, field, false);
            } else if (isMark()) {
                Calls.beforeMark(builder);
            } else {
                Calls.beforeFields(builder);
            }
        } else if (field.opcode() == Opcode.PUTSTATIC && !isFinal(field) && !isOfInfrastructure(field)) {
            loadClass(builder, field.owner());
            beforeField(builder, field, true);
        }
        builder.with(field);
    }

    /// Whether a field is one of infrastructure, and not of an object of the program.
    private boolean isOfInfrastructure(FieldInstruction field) {
        return isInfrastructure && classes.isInfrastructure(field.owner().asInternalName());
    }

    /// … base → …, base; or null, for which barriers do nothing
    private void guardInfrastructure(CodeBuilder builder) {
        if (isInfrastructure) {
            Calls.ifPersistent(builder);
        }
    }

    /// Class files of Java 1.4 and before have no constants that are classes. What is asked for by its name is
    /// initialised, as it is by the store that follows.
    private void loadClass(CodeBuilder builder, ClassEntry owner) {
        if (type.majorVersion() >= ClassFile.JAVA_5_VERSION) {
            builder.loadConstant(owner.asSymbol());
        } else {
            builder.loadConstant(owner.asInternalName().replace('/', '.'))
                    .invokestatic(
                            ConstantDescs.CD_Class,
                            "forName",
                            MethodTypeDesc.of(ConstantDescs.CD_Class, ConstantDescs.CD_String));
        }
    }

    /// `Hashtable.hashCode` turns the sign of a field while it runs, so as not to run in itself.
    private boolean isMark() {
        return type.thisClass().asInternalName().equals("java/util/Hashtable")
                && method.methodName().equalsString("hashCode");
    }

    /// Whether the objects that have a field cannot be persistent.
    private boolean isNeverPersistent(FieldInstruction field) {
        return reads != null && reads.isNeverPersistent(field.owner().asInternalName());
    }

    /// Whether an assignment needs no barrier: final fields are written once, in its constructor's prologue an
    /// object is not visible to other code yet, and of infrastructure only persistent objects are restored.
    private boolean isExempt(FieldInstruction field) {
        return isFinal(field)
                || prologueDepth != ENDED && isOwn(field) && isSelf(field)
                || isOfInfrastructure(field) && isNeverPersistent(field);
    }

    private boolean isOwn(FieldInstruction field) {
        return field.owner().asInternalName().equals(type.thisClass().asInternalName());
    }

    private boolean isFinal(FieldInstruction field) {
        return isOwn(field)
                && type.fields().stream()
                        .anyMatch(own -> own.fieldName()
                                        .equalsString(field.name().stringValue())
                                && own.fieldType().equalsString(field.type().stringValue())
                                && own.flags().has(AccessFlag.FINAL));
    }

    private boolean isSelf(FieldInstruction field) {
        if (prologue == null) {
            prologue = ParameterFlow.inPrologue(code);
        }
        return prologue.isParameter(at, InstructionEffects.words(field.typeSymbol()));
    }

    /// Whether the uppermost value is `this`, or a parameter of this class.
    private boolean isOfThisClass() {
        if (parameters == null) {
            parameters = ParameterFlow.of(code, ownParameters());
        }
        return parameters.isParameter(at, 0);
    }

    private int[] ownParameters() {
        IntStream.Builder slots = IntStream.builder();
        int slot = 0;
        if (!method.flags().has(AccessFlag.STATIC)) {
            slots.add(slot++);
        }
        for (ClassDesc parameter : method.methodTypeSymbol().parameterArray()) {
            if (parameter.equals(type.thisClass().asSymbol())) {
                slots.add(slot);
            }
            slot += InstructionEffects.words(parameter);
        }
        return slots.build().toArray();
    }

    /// … base → …
    private void beforeField(CodeBuilder builder, FieldInstruction field, boolean isStatic) {
        String owner = field.owner().asInternalName().replace('/', '.');
        numbers.load(builder, owner, field.name().stringValue(), isStatic);
        Calls.beforeField(builder);
    }

    // ---- arrays

    private void load(CodeBuilder builder, ArrayLoadInstruction load) {
        if (locksReads && !locksAtStart) {
            builder.dup2().pop(); // array, index → array, index, array
            Calls.lockToRead(builder);
        }
        if (readsTables && load.typeKind() == TypeKind.REFERENCE) {
            builder.dup2().with(load); // array, index → array, index, value
            Calls.element(builder);
        } else {
            builder.with(load);
        }
    }

    private void element(CodeBuilder builder, ArrayStoreInstruction store) {
        if (isHashMap && store.typeKind() == TypeKind.REFERENCE) {
            Calls.store(builder);
            return;
        }
        if (isTable && store.typeKind() == TypeKind.REFERENCE) {
            int part = builder.allocateLocal(TypeKind.REFERENCE);
            builder.astore(part).dup2().aload(part); // array, index, part → array, index, array, index, part
            Calls.beforeLinkInTable(builder);
            builder.aload(part).with(store);
            return;
        }
        if (store.opcode() == Opcode.BASTORE && isProbe() || isFresh()) {
            builder.with(store);
            return;
        }
        if (store.typeKind().slotSize() == 2) {
            builder.dup2_x2().pop2().dup2_x2(); // array, index, value → array, index, value, array, index
        } else {
            builder.dup_x2().pop().dup2_x1();
        }
        if (isInfrastructure) {
            builder.swap();
            Calls.ifPersistent(builder);
            builder.swap();
        }
        Calls.beforeElement(builder, isApplication);
        builder.with(store);
    }

    private boolean isFresh() {
        if (fresh == null) {
            fresh = FreshArrays.stores(code);
        }
        return fresh.get(at);
    }

    private boolean isProbe() {
        if (probes == null) {
            probes = Probes.in(type, code);
        }
        return probes.get(at);
    }

    // ---- calls

    private void call(CodeBuilder builder, InvokeInstruction call) {
        String owner = call.owner().asInternalName();
        String name = call.name().stringValue();
        if (name.equals(ConstantDescs.INIT_NAME)) {
            construct(builder, call);
            return;
        }
        if (call.opcode() == Opcode.INVOKESTATIC && owner.equals("java/lang/System") && name.equals("arraycopy")) {
            if (locksReads) {
                Calls.lockAndArraycopy(builder, isApplication && !isInfrastructure);
            } else {
                Calls.arraycopy(builder, isApplication && !isInfrastructure);
            }
            return;
        }
        if (call.opcode() == Opcode.INVOKESTATIC && Calls.replaces(owner, name)) {
            builder.invokestatic(Calls.REPLACEMENT, name, call.typeSymbol());
            return;
        }
        boolean isChecked = isApplication && !isInfrastructure && call.opcode() == Opcode.INVOKESTATIC;
        if (isChecked && StaticState.isChanged(owner, name)) {
            Calls.beforeStatic(builder, owner.replace('/', '.') + "." + name);
        }
        prepare(builder, call, owner, name);
        if (locksReads) {
            lockUnseen(builder, call, owner, name);
        }
        if (reads != null && isClone(call, owner, name)) {
            copy(builder, call);
            return;
        }
        builder.with(call);
        if (callsPut && name.equals("hash")) {
            builder.dup2(); // map, hash → map, hash, map, hash
            Calls.beforePut(builder);
        }
        boolean makesObject = isApplication
                && call.typeSymbol().returnType().isClassOrInterface()
                && WovenMethods.makesObject(owner, name);
        if (makesObject || WovenMethods.makesArray(owner, name)) {
            builder.dup();
            Calls.made(builder);
        }
    }

    /// Whether a method may be that of [Object].
    private static boolean isClone(InvokeInstruction call, String owner, String name) {
        return name.equals("clone")
                && !owner.startsWith("[")
                && call.opcode() != Opcode.INVOKESTATIC
                && call.type().stringValue().startsWith("()L");
    }

    private static void copy(CodeBuilder builder, InvokeInstruction call) {
        builder.dup();
        Calls.beforeRead(builder);
        builder.dup().with(call).dup_x1(); // object → copy, object, copy
        Calls.copied(builder);
    }

    private void construct(CodeBuilder builder, InvokeInstruction call) {
        String owner = call.owner().asInternalName();
        boolean isNew = prologueDepth != 0;
        boolean isRemembered = isApplication && isRememberedAsMade(owner);
        prepareArguments(builder, call, owner, ConstantDescs.INIT_NAME);
        if (locksReads) {
            lockArguments(builder, call, owner, ConstantDescs.INIT_NAME);
        }
        if (isNew && isRemembered) {
            spill.store(builder, call.typeSymbol());
            builder.dup();
            spill.loadAll(builder);
            builder.with(call);
            Calls.made(builder);
        } else {
            builder.with(call);
        }
        if (prologueDepth == ENDED) {
            return;
        }
        if (prologueDepth > 0) {
            prologueDepth--;
            return;
        }
        prologueDepth = ENDED;
        boolean isSuper = !owner.equals(type.thisClass().asInternalName());
        if (isSuper && (hasVariables() || isRemembered)) {
            builder.aload(0);
            Calls.made(builder);
        }
    }

    /// Whether it is to be remembered that an object of a class was made: the constructor does not do so itself.
    private boolean isRememberedAsMade(String owner) {
        boolean isOwn = owner.equals(type.thisClass().asInternalName());
        return WovenMethods.isRememberedAsMade(owner) || !isOwn && classes.isLeftOut(owner);
    }

    /// Whether an object of the class has anything of its own to restore.
    private boolean hasVariables() {
        return type.fields().stream()
                .anyMatch(field ->
                        !field.flags().has(AccessFlag.STATIC) && !field.flags().has(AccessFlag.FINAL));
    }

    private void prepare(CodeBuilder builder, InvokeInstruction call, String owner, String name) {
        if (isWrapper && call.opcode() != Opcode.INVOKESTATIC) {
            if (owner.equals("java/lang/reflect/Field") && WovenMethods.isReflectiveStore(name)) {
                spill.store(builder, call.typeSymbol());
                builder.dup();
                spill.load(builder, 0);
                Calls.beforeReflection(builder);
                spill.loadAll(builder);
                return;
            }
            if (WovenMethods.isReflectiveCall(owner, name)) {
                spill.store(builder, call.typeSymbol());
                builder.dup();
                spill.load(builder, 0);
                spill.load(builder, 1);
                Calls.beforeInvoke(builder);
                spill.loadAll(builder);
                return;
            }
            if (WovenMethods.storesByHandle(owner, name)) {
                prepareHandle(builder, call.typeSymbol(), WovenMethods.base(owner, name));
                return;
            }
            prepareReceiver(builder, call, owner, name);
        }
        prepareArguments(builder, call, owner, name);
    }

    /// An argument is what the variable belongs to, unless it is a static one, or has an address.
    private void prepareHandle(CodeBuilder builder, MethodTypeDesc descriptor, int base) {
        spill.store(builder, descriptor);
        if (isInfrastructure) {
            // Of a static variable, or of memory, nothing is persistent.
            builder.aconst_null();
        } else {
            builder.dup();
        }
        if (descriptor.parameterCount() > base
                && !descriptor.parameterType(base).isPrimitive()) {
            spill.load(builder, base);
            guardInfrastructure(builder);
        } else {
            builder.aconst_null();
        }
        Calls.beforeHandle(builder);
        spill.loadAll(builder);
    }

    private void prepareReceiver(CodeBuilder builder, InvokeInstruction call, String owner, String name) {
        MethodTypeDesc descriptor = call.typeSymbol();
        boolean changesReceiver = JavaBase.changesReceiver(owner, name) && !extendsNothing(owner);
        boolean changesArguments = isApplication
                && WovenMethods.mayInherit(owner, name)
                && changesAny(descriptor, owner)
                && !(extendsNothing(owner) && type.interfaces().isEmpty());
        if (!changesReceiver && !changesArguments) {
            return;
        }
        String method = name + call.type().stringValue();
        String called = call.opcode() == Opcode.INVOKESPECIAL ? owner + "." + method : method;
        spill.store(builder, descriptor);
        if (changesReceiver) {
            builder.dup();
            guardInfrastructure(builder);
            if (WovenMethods.isText(owner)) {
                // They have no subclasses, so the method's behaviour need not be looked up.
                Calls.beforeArgument(builder, isApplication);
            } else {
                Calls.beforeCall(builder, called);
            }
        }
        for (int i = 0; changesArguments && i < descriptor.parameterCount(); i++) {
            if (WovenMethods.isChanged(descriptor.parameterType(i).descriptorString(), owner)) {
                builder.dup().loadConstant(called);
                spill.load(builder, i);
                guardInfrastructure(builder);
                Calls.beforeInherited(builder);
            }
        }
        spill.loadAll(builder);
    }

    /// Whether the class whose method is called is this one, or that of transactions, and has no ancestors
    /// but `Object`.
    private boolean extendsNothing(String owner) {
        return owner.equals("cedrat/persist/Transaction")
                || owner.equals(type.thisClass().asInternalName())
                        && type.superclass().isPresent()
                        && type.superclass().get().asInternalName().equals("java/lang/Object");
    }

    private void prepareArguments(CodeBuilder builder, InvokeInstruction call, String owner, String name) {
        MethodTypeDesc descriptor = call.typeSymbol();
        if (!WovenMethods.mayChangeArguments(owner, name, isApplication) || !changesAny(descriptor, owner)) {
            return;
        }
        spill.store(builder, descriptor);
        for (int i = 0; i < descriptor.parameterCount(); i++) {
            if (WovenMethods.isChanged(descriptor.parameterType(i).descriptorString(), owner)) {
                spill.load(builder, i);
                guardInfrastructure(builder);
                Calls.beforeArgument(builder, isApplication);
            }
        }
        spill.loadAll(builder);
    }

    private static boolean changesAny(MethodTypeDesc descriptor, String owner) {
        for (int i = 0; i < descriptor.parameterCount(); i++) {
            if (WovenMethods.isChanged(descriptor.parameterType(i).descriptorString(), owner)) {
                return true;
            }
        }
        return false;
    }

    // ---- what is read behind the barriers' back

    /// Locks the receiver and arguments of a call that reads them where no barrier is.
    private void lockUnseen(CodeBuilder builder, InvokeInstruction call, String owner, String name) {
        lockArguments(builder, call, owner, name);
        boolean isReceiverRead = call.opcode() != Opcode.INVOKESTATIC
                && (isClone(call, owner, name) || UnseenReads.ofReceiver(owner, name));
        if (isReceiverRead) {
            spill.store(builder, call.typeSymbol());
            builder.dup();
            Calls.lockToRead(builder);
            spill.loadAll(builder);
        }
    }

    /// In the JDK collections pass on arrays that others have.
    private void lockArguments(CodeBuilder builder, InvokeInstruction call, String owner, String name) {
        if (isApplication || owner.equals("java/util/Arrays")) {
            lockArguments(
                    builder,
                    call.typeSymbol(),
                    (parameter, type) -> UnseenReads.ofArgument(owner, name, parameter, type),
                    UnseenReads.isDeep(owner, name) ? Calls::lockDeeplyToRead : Calls::lockToRead);
        }
    }

    /// Which parameters are read, by their numbers and types.
    private interface Read {
        boolean of(int parameter, String descriptor);
    }

    private void lockArguments(CodeBuilder builder, MethodTypeDesc descriptor, Read read, Consumer<CodeBuilder> lock) {
        int[] locked = IntStream.range(0, descriptor.parameterCount())
                .filter(i -> read.of(i, descriptor.parameterType(i).descriptorString()))
                .toArray();
        if (locked.length == 0) {
            return;
        }
        spill.store(builder, descriptor);
        for (int parameter : locked) {
            spill.load(builder, parameter);
            lock.accept(builder);
        }
        spill.loadAll(builder);
    }

    /// Takes the arguments of a call off the stack and puts them back, by locals of their own.
    private static final class Spill {
        /// By kind and by how many of the kind the call has had: locals that are used again.
        private final int[][] slots = new int[TypeKind.values().length][];
        private int[] taken = new int[0];
        private TypeKind[] kinds = new TypeKind[0];

        /// … arguments → …
        void store(CodeBuilder builder, MethodTypeDesc descriptor) {
            int count = descriptor.parameterCount();
            taken = new int[count];
            kinds = new TypeKind[count];
            int[] used = new int[slots.length];
            for (int i = count - 1; i >= 0; i--) {
                kinds[i] = TypeKind.from(descriptor.parameterType(i)).asLoadable();
                int kind = kinds[i].ordinal();
                taken[i] = slot(builder, kinds[i], used[kind]++);
                builder.storeLocal(kinds[i], taken[i]);
            }
        }

        private int slot(CodeBuilder builder, TypeKind kind, int number) {
            int[] known = slots[kind.ordinal()];
            if (known == null || number >= known.length) {
                int length = known == null ? 0 : known.length;
                known = known == null ? new int[number + 1] : Arrays.copyOf(known, number + 1);
                for (int i = length; i <= number; i++) {
                    known[i] = builder.allocateLocal(kind);
                }
                slots[kind.ordinal()] = known;
            }
            return known[number];
        }

        /// … → …, argument
        void load(CodeBuilder builder, int argument) {
            builder.loadLocal(kinds[argument], taken[argument]);
        }

        /// … → …, arguments
        void loadAll(CodeBuilder builder) {
            for (int i = 0; i < taken.length; i++) {
                load(builder, i);
            }
        }
    }
}
