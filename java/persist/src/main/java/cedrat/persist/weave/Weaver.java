package cedrat.persist.weave;

import cedrat.persist.memory.Fields;
import java.lang.classfile.Attributes;
import java.lang.classfile.ClassBuilder;
import java.lang.classfile.ClassElement;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassHierarchyResolver;
import java.lang.classfile.ClassModel;
import java.lang.classfile.ClassTransform;
import java.lang.classfile.CodeBuilder;
import java.lang.classfile.CodeElement;
import java.lang.classfile.CodeModel;
import java.lang.classfile.CodeTransform;
import java.lang.classfile.Label;
import java.lang.classfile.MethodBuilder;
import java.lang.classfile.MethodElement;
import java.lang.classfile.MethodModel;
import java.lang.classfile.MethodTransform;
import java.lang.classfile.attribute.StackMapFrameInfo;
import java.lang.classfile.attribute.StackMapFrameInfo.ObjectVerificationTypeInfo;
import java.lang.classfile.attribute.StackMapFrameInfo.VerificationTypeInfo;
import java.lang.classfile.attribute.StackMapTableAttribute;
import java.lang.classfile.constantpool.ClassEntry;
import java.lang.classfile.constantpool.PoolEntry;
import java.lang.classfile.instruction.InvokeInstruction;
import java.lang.classfile.instruction.ReturnInstruction;
import java.lang.constant.ClassDesc;
import java.lang.constant.ConstantDescs;
import java.lang.constant.MethodTypeDesc;
import java.lang.reflect.AccessFlag;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import java.util.function.Predicate;

/// Puts write and read barriers into classes.
///
/// Nothing that it inserts branches, but where locals are restored: guards are tested inside of the called
/// methods, which the just-in-time compiler inlines. So the frames by which a class is verified stay those of
/// its compiler, no other class has to be looked at, and what is woven is as good as what was compiled.
///
/// Reads have barriers, and objects may become persistent, only if every class of the application is woven as
/// it is loaded: one that was there before can have no further members, and would read null where a reference
/// is not loaded yet.
///
/// **Threads:** any.
final class Weaver {
    /// Purpose for which a class is woven.
    enum Kind {
        /// A class of the application: stores, and calls of the JDK that store.
        APPLICATION,
        /// A collection of the JDK's: stores.
        COLLECTION,
        /// A collection of the JDK that is locked and saved as a whole.
        CONCURRENT,
        /// A class of the JDK outside of transactions: some of its methods are suspensions.
        SUSPENDING,
        /// A class of the JDK: some of its methods read fields of any object.
        READING,
        /// A class of the JDK whose identity hash codes are to be the same in each process.
        HASHING,
        /// A class of the JDK that may let other threads do the work of the calling one.
        STREAM
    }

    private static final ClassDesc ERROR = ClassDesc.of("java.lang", "VerifyError");
    private static final MethodTypeDesc ERROR_OF = MethodTypeDesc.of(ConstantDescs.CD_void, ConstantDescs.CD_String);
    private static final ClassFile CLASS_FILE = ClassFile.of(ClassFile.StackMapsOption.DROP_STACK_MAPS);

    private final FieldNumbers numbers;
    private final Classes classes;
    private final ReadFields readFields = new ReadFields();
    private volatile boolean weavesReads;

    /// A weaver of classes that are loaded in this process.
    Weaver(Fields fields, Classes classes) {
        this(FieldNumbers.ofProcess(fields), classes);
    }

    Weaver(FieldNumbers numbers, Classes classes) {
        this.numbers = numbers;
        this.classes = classes;
    }

    /// From here on classes are loaded that may read persistent objects, and become such.
    void weaveReads() {
        weavesReads = true;
    }

    boolean weavesReads() {
        return weavesReads;
    }

    /// The woven class.
    ///
    /// @param loader      its class loader, by whose resources the types of locals are compared
    /// @param isLoaded    whether the class is there already, and has no methods of the weaver
    /// @param isRedefined whether the class is there already
    /// @throws UnstructuredException    if it begins a transaction that it does not close
    /// @throws IllegalArgumentException if the class is not well-formed, or was to have further methods
    byte[] weave(byte[] original, Kind kind, ClassLoader loader, boolean isLoaded, boolean isRedefined)
            throws UnstructuredException {
        ClassModel type = CLASS_FILE.parse(original);
        checkMemos(type);
        MethodReferences references =
                new MethodReferences(CLASS_FILE, type, weavesReads && classes.locksReads() && !isLoaded);
        if (kind == Kind.APPLICATION && references.areThere()) {
            if (isLoaded) {
                throw new IllegalArgumentException(
                        "it was loaded before the agent, and refers by `::` to methods whose "
                                + "calls need barriers: start Java with the agent, or write lambdas");
            }
            type = CLASS_FILE.parse(references.replaced());
        }
        if (kind == Kind.APPLICATION && mentionsTransactions(type)) {
            type = withScopes(type, loader);
        }
        byte[] woven = CLASS_FILE.transformClass(type, transform(original, type, kind, loader, isRedefined));
        Predicate<MethodModel> suspending = suspending(type, kind, loader);
        return type.methods().stream().anyMatch(suspending)
                ? withSuspensions(CLASS_FILE.parse(woven), suspending, kind)
                : woven;
    }

    /// A class of the application that is not woven, with its suspensions, or null: it has none.
    ///
    /// - What initialises or loads a class is not done again after a rollback, whether or not the class is woven.
    byte[] withSuspensions(ClassModel type, ClassLoader loader) {
        Predicate<MethodModel> suspending = suspending(type, Kind.APPLICATION, loader);
        return type.methods().stream().anyMatch(suspending)
                ? withSuspensions(type, suspending, Kind.APPLICATION)
                : null;
    }

    /// The model of a class.
    static ClassModel parse(byte[] original) {
        return CLASS_FILE.parse(original);
    }

    /// Notes a class that a build has woven.
    ///
    /// @param isRedefined whether the class is there already, and keeps its methods
    /// @throws IllegalArgumentException if an argument of the agent does not suit the class
    void accept(ClassModel type, ClassLoader loader, WovenAttribute woven, boolean isRedefined) {
        checkMemos(type);
        String name = type.thisClass().asInternalName();
        if (!isRedefined || readFields.of(loader, name).isEmpty()) {
            readFields.put(loader, name, woven.readFields);
        }
    }

    /// Returns the fields that a woven class reads by methods.
    List<Accessors.Field> readFields(ClassLoader loader, String internalName) {
        return readFields.of(loader, internalName);
    }

    /// A misspelt name would let assignments to the memo field throw, and a final field would not be loaded.
    private void checkMemos(ClassModel type) {
        for (String name : classes.memos().added(type.thisClass().asInternalName())) {
            boolean isFound = type.fields().stream()
                    .anyMatch(field -> field.fieldName().equalsString(name)
                            && !field.flags().has(AccessFlag.STATIC)
                            && !field.flags().has(AccessFlag.FINAL));
            if (!isFound) {
                throw new IllegalArgumentException("it has no field " + name
                        + " that is neither static nor final: correct memo=… in the agent's argument");
            }
        }
    }

    /// Methods that are suspensions as well as woven.
    private static Predicate<MethodModel> suspending(ClassModel type, Kind kind, ClassLoader loader) {
        boolean isLoader = kind == Kind.APPLICATION && Suspensions.isLoader(type, loader);
        return method -> switch (kind) {
            case APPLICATION -> isInitializer(method) || isLoader && Suspensions.isOfLoader(method);
            case COLLECTION -> isInitializer(method);
            default -> false;
        };
    }

    private static byte[] withSuspensions(ClassModel type, Predicate<MethodModel> suspending, Kind kind) {
        return CLASS_FILE.transformClass(type, (builder, element) -> {
            if (element instanceof MethodModel method && suspending.test(method)) {
                boolean isLoading = kind != Kind.APPLICATION || !isInitializer(method);
                builder.transformMethod(method, (methodBuilder, part) -> {
                    if (part instanceof CodeModel code) {
                        methodBuilder.transformCode(code, suspended(code, isLoading));
                    } else {
                        methodBuilder.with(part);
                    }
                });
            } else {
                builder.with(element);
            }
        });
    }

    static boolean mentionsTransactions(ClassModel type) {
        for (PoolEntry entry : type.constantPool()) {
            if (entry instanceof ClassEntry named && named.asInternalName().equals("cedrat/persist/Transaction")) {
                return true;
            }
        }
        return false;
    }

    /// Methods that restore locals branch, so their frames are made anew.
    private static ClassModel withScopes(ClassModel type, ClassLoader loader) throws UnstructuredException {
        Map<MethodModel, Scopes> restoring = new IdentityHashMap<>();
        for (MethodModel method : type.methods()) {
            if (method.code().isPresent()) {
                Scopes scopes = new Scopes(type, method, method.code().get());
                if (scopes.hasLocals()) {
                    restoring.put(method, scopes);
                }
            }
        }
        if (restoring.isEmpty()) {
            return type;
        }
        ClassHierarchyResolver hierarchy = ClassHierarchyResolver.ofResourceParsing(loader);
        ClassFile withFrames = ClassFile.of(
                ClassFile.StackMapsOption.GENERATE_STACK_MAPS, ClassFile.ClassHierarchyResolverOption.of(hierarchy));
        byte[] woven = withFrames.transformClass(type, (builder, element) -> {
            if (element instanceof MethodModel method && restoring.containsKey(method)) {
                builder.transformMethod(
                        method,
                        MethodTransform.transformingCode(
                                CodeTransform.ofStateful(() -> new ScopeWeaver(restoring.get(method)))));
            } else {
                builder.with(element);
            }
        });
        return CLASS_FILE.parse(woven);
    }

    /// The class, whose initialisation throws: what a transformer throws itself is dropped by the virtual
    /// machine.
    byte[] refusing(byte[] original, String message) {
        ClassTransform dropping =
                ClassTransform.dropping(element -> element instanceof MethodModel method && isInitializer(method));
        ClassTransform throwing = ClassTransform.endHandler(builder -> builder.withMethodBody(
                ConstantDescs.CLASS_INIT_NAME, ConstantDescs.MTD_void, ClassFile.ACC_STATIC, code -> code.new_(ERROR)
                        .dup()
                        .loadConstant(message)
                        .invokespecial(ERROR, ConstantDescs.INIT_NAME, ERROR_OF)
                        .athrow()));
        return CLASS_FILE.transformClass(CLASS_FILE.parse(original), dropping.andThen(throwing));
    }

    private static boolean isInitializer(MethodModel method) {
        return method.methodName().equalsString(ConstantDescs.CLASS_INIT_NAME);
    }

    private ClassTransform transform(
            byte[] original, ClassModel type, Kind kind, ClassLoader loader, boolean isRedefined) {
        boolean isRead = weavesReads && kind == Kind.APPLICATION;
        String name = type.thisClass().asInternalName();
        List<Accessors.Field> known = isRedefined ? readFields.of(loader, name) : null;
        ReadWeaver reads = isRead ? new ReadWeaver(numbers, classes, loader, type, known) : null;
        ClassTransform identity = isRead ? identity(original, loader) : ClassTransform.ACCEPT_ALL;
        // One behind the other they would build each method twice.
        return new ClassTransform() {
            @Override
            public void accept(ClassBuilder builder, ClassElement element) {
                if (element instanceof MethodModel method && method.code().isPresent()) {
                    builder.transformMethod(method, method(type, method, kind, reads));
                } else {
                    identity.accept(builder, element);
                }
            }

            @Override
            public void atEnd(ClassBuilder builder) {
                if (isRead) {
                    readFields.put(loader, name, reads.addTo(builder));
                }
                identity.atEnd(builder);
            }
        };
    }

    /// The class with an identity and without barriers, or null: reads are not woven.
    byte[] withIdentity(byte[] original, ClassLoader loader) {
        return weavesReads ? CLASS_FILE.transformClass(CLASS_FILE.parse(original), identity(original, loader)) : null;
    }

    /// The class with an identity and without barriers, whose methods are refused in transactions and while a store
    /// is open. Its initialisation is in no transaction, as that of other classes.
    ///
    /// @param why names the class and the reason
    /// @throws IllegalArgumentException if one of its methods can have no further instructions
    byte[] withoutBarriers(byte[] original, ClassLoader loader, String why) {
        ClassModel type = CLASS_FILE.parse(original);
        ClassTransform identity = weavesReads ? identity(original, loader) : ClassTransform.ACCEPT_ALL;
        byte[] refusing = CLASS_FILE.transformClass(type, new ClassTransform() {
            @Override
            public void accept(ClassBuilder builder, ClassElement element) {
                if (element instanceof MethodModel method && method.code().isPresent() && !isInitializer(method)) {
                    builder.transformMethod(method, refusing(method.code().get(), why));
                } else {
                    identity.accept(builder, element);
                }
            }

            @Override
            public void atEnd(ClassBuilder builder) {
                identity.atEnd(builder);
            }
        });
        return withSuspensions(CLASS_FILE.parse(refusing), Weaver::isInitializer, Kind.APPLICATION);
    }

    private static MethodTransform refusing(CodeModel code, String why) {
        return MethodTransform.transformingCode(
                changed(code, builder -> Calls.refuseUnwoven(builder, why), CodeBuilder::with));
    }

    private ClassTransform identity(byte[] original, ClassLoader loader) {
        ClassModel type = CLASS_FILE.parse(original);
        boolean hasObjects =
                !type.flags().has(AccessFlag.INTERFACE) && !type.flags().has(AccessFlag.MODULE);
        if (!hasObjects || !classes.isPersistable(loader, type.thisClass().asInternalName())) {
            return ClassTransform.ACCEPT_ALL;
        }
        boolean isTopmost =
                !classes.isPersistable(loader, type.superclass().orElseThrow().asInternalName());
        return new Identities(type, isTopmost);
    }

    private MethodTransform method(ClassModel type, MethodModel method, Kind kind, ReadWeaver reads) {
        return (builder, element) -> {
            if (element instanceof CodeModel code) {
                weave(builder, type, method, code, kind, reads);
            } else {
                builder.with(element);
            }
        };
    }

    private void weave(
            MethodBuilder builder, ClassModel type, MethodModel method, CodeModel code, Kind kind, ReadWeaver reads) {
        switch (kind) {
            case SUSPENDING -> {
                if (Suspensions.contains(type, method)) {
                    builder.transformCode(code, suspended(code, true));
                } else {
                    builder.with((MethodElement) code);
                }
            }
            case READING -> {
                String name = type.thisClass().asInternalName();
                int local = ReflectiveReads.local(name, method);
                int locked = classes.locksReads() ? ReflectiveReads.localToLock(name, method) : -1;
                if (local >= 0 || locked >= 0) {
                    builder.transformCode(code, reading(code, local, locked, ReflectiveReads.changes(name, method)));
                } else {
                    builder.with((MethodElement) code);
                }
            }
            case CONCURRENT -> {
                if (ConcurrentCollections.isOpen(method)) {
                    builder.transformCode(code, concurrent(type, method, code));
                } else {
                    builder.with((MethodElement) code);
                }
            }
            case HASHING -> builder.transformCode(code, hashing(code));
            case STREAM -> {
                if (method.methodName().equalsString("isParallel")) {
                    builder.transformCode(code, sequential(code));
                } else {
                    builder.with((MethodElement) code);
                }
            }
            // Code that turns out to be long is built a second time.
            default ->
                builder.transformCode(
                        code,
                        CodeTransform.ofStateful(() -> new StoreWeaver(
                                numbers, classes, type, method, code, kind, reads, locksReads(kind, reads))));
        }
    }

    /// In the application only where it may read persistent objects.
    private boolean locksReads(Kind kind, ReadWeaver reads) {
        return classes.locksReads() && (kind == Kind.COLLECTION || reads != null);
    }

    /// The code, whose result is false in a transaction.
    private static CodeTransform sequential(CodeModel code) {
        return changed(code, builder -> {}, (builder, element) -> {
            if (element instanceof ReturnInstruction) {
                Calls.parallel(builder);
            }
            builder.with(element);
        });
    }

    /// The code, before which the collection is locked. In a transaction it is carried out by one task.
    private CodeTransform concurrent(ClassModel type, MethodModel method, CodeModel code) {
        if (ConcurrentCollections.isChange(type, method)) {
            return enclosed(
                    code,
                    List.of(ObjectVerificationTypeInfo.of(type.thisClass())),
                    builder -> ConcurrentCollections.begin(builder, type, method, classes.locksReads()),
                    builder -> Calls.afterChange(builder.aload(0)));
        }
        boolean countsTasks = ConcurrentCollections.countsTasks(method);
        return changed(
                code,
                builder -> ConcurrentCollections.begin(builder, type, method, classes.locksReads()),
                (builder, element) -> {
                    if (countsTasks && element instanceof ReturnInstruction) {
                        builder.iconst_1();
                        Calls.parallel(builder);
                        builder.imul();
                    }
                    builder.with(element);
                });
    }

    /// The code, with hash codes by name in place of those by identity.
    private static CodeTransform hashing(CodeModel code) {
        return changed(code, builder -> {}, (builder, element) -> {
            if (element instanceof InvokeInstruction call && call.name().equalsString("identityHashCode")) {
                Calls.hash(builder);
            } else {
                builder.with(element);
            }
        });
    }

    /// The code, before which an object is locked, and loaded.
    ///
    /// @param locked where the object is that is locked, or -1
    /// @param local  where the object is that is loaded, or -1
    /// @param isChanged whether fields of `this` are assigned, which a persistent object has
    private static CodeTransform reading(CodeModel code, int local, int locked, boolean isChanged) {
        return changed(
                code,
                builder -> {
                    if (locked >= 0) {
                        builder.aload(locked);
                        Calls.lockToRead(builder);
                    }
                    if (local >= 0) {
                        builder.aload(local);
                        Calls.beforeRead(builder);
                    }
                    if (isChanged) {
                        builder.aload(0);
                        Calls.ifPersistent(builder);
                        Calls.beforeFields(builder);
                    }
                },
                CodeBuilder::with);
    }

    /// The code, with its frames as they are: nothing that is added branches.
    ///
    /// @param first  adds what comes before the first instruction
    /// @param change adds an element, or something in its place
    private static CodeTransform changed(
            CodeModel code, Consumer<CodeBuilder> first, BiConsumer<CodeBuilder, CodeElement> change) {
        return new CodeTransform() {
            @Override
            public void atStart(CodeBuilder builder) {
                code.findAttribute(Attributes.stackMapTable()).ifPresent(builder);
                first.accept(builder);
            }

            @Override
            public void accept(CodeBuilder builder, CodeElement element) {
                change.accept(builder, element);
            }
        };
    }

    /// The code between [cedrat.persist.boot.Barrier#suspend] and [cedrat.persist.boot.Barrier#resume], or those
    /// of loading.
    private static CodeTransform suspended(CodeModel code, boolean isLoading) {
        return enclosed(
                code,
                List.of(),
                builder -> Calls.suspend(builder, isLoading),
                builder -> Calls.resume(builder, isLoading));
    }

    /// The code between two parts, of which the second also runs if the code throws.
    ///
    /// @param known  types of the locals from the first on that both parts use
    /// @param before adds the first part
    /// @param after  adds the second part
    private static CodeTransform enclosed(
            CodeModel code,
            List<VerificationTypeInfo> known,
            Consumer<CodeBuilder> before,
            Consumer<CodeBuilder> after) {
        return CodeTransform.ofStateful(() -> new CodeTransform() {
            private Label start;
            private Label end;
            private Label handler;

            @Override
            public void atStart(CodeBuilder builder) {
                before.accept(builder);
                start = builder.newBoundLabel();
                end = builder.newLabel();
                handler = builder.newLabel();
            }

            @Override
            public void accept(CodeBuilder builder, CodeElement element) {
                if (element instanceof ReturnInstruction) {
                    after.accept(builder);
                }
                builder.with(element);
            }

            @Override
            public void atEnd(CodeBuilder builder) {
                // Behind those of the method itself, so that it comes last in their table.
                builder.labelBinding(end).labelBinding(handler);
                after.accept(builder);
                builder.athrow();
                builder.exceptionCatchAll(start, end, handler);
                builder.with(withHandler(code, handler, known));
            }
        });
    }

    /// The frames of the code, and one of a handler that knows some locals.
    private static StackMapTableAttribute withHandler(CodeModel code, Label handler, List<VerificationTypeInfo> known) {
        List<StackMapFrameInfo> frames = new ArrayList<>();
        Optional<StackMapTableAttribute> own = code.findAttribute(Attributes.stackMapTable());
        own.ifPresent(attribute -> frames.addAll(attribute.entries()));
        frames.add(StackMapFrameInfo.of(
                handler, known, List.of(ObjectVerificationTypeInfo.of(ConstantDescs.CD_Throwable))));
        return StackMapTableAttribute.of(frames);
    }
}
