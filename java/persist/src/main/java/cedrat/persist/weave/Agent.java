package cedrat.persist.weave;

import cedrat.persist.PersistenceRuntime;
import cedrat.persist.boot.Barrier;
import cedrat.persist.jdk.JavaBase;
import cedrat.persist.memory.ConcurrentState;
import cedrat.persist.memory.Fields;
import cedrat.persist.record.Recorder;
import cedrat.persist.store.StoreRuntime;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.lang.instrument.UnmodifiableClassException;
import java.lang.module.ModuleReader;
import java.lang.module.ModuleReference;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.jar.JarFile;
import java.util.jar.JarOutputStream;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;

/// The Java agent: weaves write barriers into the classes of the application and the collections of
/// `java.util`.
///
/// `-javaagent:persist.jar`, or `Launcher-Agent-Class: cedrat.persist.weave.Agent` in the manifest of an executable
/// jar, or `VirtualMachine.loadAgent`. The argument `exclude=org.example:com.example.Generated` lists
/// packages and classes that are not woven: their stores are not restored by a rollback, and transactions do
/// not begin in them. `include=com.example.model` lists those whose classes alone are woven, with what may begin
/// transactions or assign to their fields; `include=com.sun.tools.javac` lists those of the JDK's own tools that are.
/// `infrastructure=com.example.audit` lists packages and classes whose changes belong to no transaction.
/// `memo=com.example.Point#hash` lists [memo fields][cedrat.persist.memory.MemoFields]. With
/// `reads=unlocked`, reads of primitive fields have no barriers. Then only stores with
/// [cedrat.persist.StoreOptions.Isolation#READ_UNCOMMITTED] can be opened. Without an argument, the agent takes
/// those of the file [#ARGUMENTS].
public final class Agent {
    /// The file of the class path with the arguments, for an agent that is started without any.
    public static final String ARGUMENTS = "META-INF/cedrat/agent.arguments";

    private static final String[] BOOT_CLASSES = {
        "cedrat/persist/boot/Barrier",
        "cedrat/persist/boot/FieldNumbers",
        "cedrat/persist/boot/Handler",
        "cedrat/persist/boot/Header",
        "cedrat/persist/boot/Identity",
        "cedrat/persist/boot/Persistable"
    };

    private Agent() {}

    /// Called by the virtual machine before `main`.
    public static void premain(String argument, Instrumentation instrumentation) {
        agentmain(argument, instrumentation);
    }

    /// Called by the virtual machine when the agent is loaded later.
    public static void agentmain(String argument, Instrumentation instrumentation) {
        try {
            appendBootClasses(instrumentation);
        } catch (IOException e) {
            throw new UncheckedIOException("cannot write the classes of the boot class path to a temporary file", e);
        }
        checkBootClasses();
        addReadEdge(instrumentation, Agent.class.getModule());
        boolean isGiven = argument != null && !argument.isEmpty();
        Started.start(new Classes(isGiven ? argument : readArguments()), instrumentation);
    }

    /// A manifest cannot pass arguments, so a build leaves them in a file.
    ///
    /// @return null if there is none
    private static String readArguments() {
        try (InputStream in = ClassLoader.getSystemResourceAsStream(ARGUMENTS)) {
            return in == null ? null : new String(in.readAllBytes(), StandardCharsets.UTF_8).strip();
        } catch (IOException e) {
            throw new UncheckedIOException("cannot read the file " + ARGUMENTS + " of the class path", e);
        }
    }

    /// The boot class path takes files only.
    private static void appendBootClasses(Instrumentation instrumentation) throws IOException {
        Path file = Files.createTempFile("cedrat-boot", ".jar");
        file.toFile().deleteOnExit();
        try (OutputStream out = Files.newOutputStream(file);
                JarOutputStream jar = new JarOutputStream(out)) {
            for (String name : BOOT_CLASSES) {
                jar.putNextEntry(new ZipEntry(name + ".class"));
                try (InputStream in = Agent.class.getResourceAsStream("/META-INF/boot/" + name + ".class")) {
                    if (in == null) {
                        throw new IOException("the agent's jar lacks " + name + ".class");
                    }
                    in.transferTo(jar);
                }
                jar.closeEntry();
            }
        }
        try (JarFile jar = new JarFile(file.toFile())) {
            instrumentation.appendToBootstrapClassLoaderSearch(jar);
        }
        if (File.separatorChar == '/') {
            // The virtual machine holds it open; a process that is killed would leave it behind.
            Files.delete(file);
        }
    }

    /// A program with classes that a build has woven loads the barriers itself if it starts without the agent. The
    /// classes of the JDK would call others. A class that was only loaded has loaded its interface.
    private static void checkBootClasses() {
        try {
            for (String name : BOOT_CLASSES) {
                Class<?> type = Class.forName(name.replace('/', '.'), false, Agent.class.getClassLoader());
                if (type.getClassLoader() != null) {
                    throw new IllegalStateException("cannot load the agent: classes that a build has woven were loaded "
                            + "without it. Start Java with -javaagent:persist.jar, before other agents, or with the agent "
                            + "in the manifest of the executable jar");
                }
            }
        } catch (ClassNotFoundException e) {
            throw new AssertionError("the boot class path lacks what was appended to it", e);
        }
    }

    /// Makes a module read the barriers. Named modules do not read what is on the boot class path, and an
    /// interface there has to be readable when a class that implements it is defined. The agent's own
    /// module reads it only after this call, so `Barrier` is found by its name.
    private static void addReadEdge(Instrumentation instrumentation, Module module) {
        Module barriers;
        try {
            barriers = Class.forName("cedrat.persist.boot.Barrier", false, null).getModule();
        } catch (ClassNotFoundException e) {
            throw new AssertionError("the boot class path lacks what was appended to it", e);
        }
        if (!module.canRead(barriers)) {
            instrumentation.redefineModule(module, Set.of(barriers), Map.of(), Map.of(), Set.of(), Map.of());
        }
    }

    /// Exports an internal package to a module with woven code, which begins transactions there. The
    /// agent's module, if it has a name, exports that package to no other code.
    private static void exportReplacements(Instrumentation instrumentation, Module module) {
        Module own = Agent.class.getModule();
        String replacements = Calls.REPLACEMENT.packageName();
        if (!own.isExported(replacements, module)) {
            instrumentation.redefineModule(
                    own, Set.of(), Map.of(replacements, Set.of(module)), Map.of(), Set.of(), Map.of());
        }
    }

    /// Classes that may be loaded only when the boot class path is complete.
    private static final class Started implements ClassFileTransformer {
        private final Instrumentation instrumentation;
        private final Classes classes;
        private final Recorder recorder;
        private final Weaver weaver;

        private Started(Instrumentation instrumentation, Classes classes, Recorder recorder, Weaver weaver) {
            this.instrumentation = instrumentation;
            this.classes = classes;
            this.recorder = recorder;
            this.weaver = weaver;
        }

        static void start(Classes classes, Instrumentation instrumentation) {
            exportUnsafe(instrumentation);
            initializeHeader();
            Fields fields =
                    new Fields(declaring -> open(instrumentation, declaring), classes.memos(), classes::hasBarriers);
            Recorder recorder = new Recorder(fields, classes.locksReads(), classes::isOutside);
            Started started = new Started(instrumentation, classes, recorder, new Weaver(fields, classes));
            recorder.install();
            PersistenceRuntime.install(new StoreRuntime(recorder));
            // So that the transformer itself needs no class that is loaded when it is called first.
            SerialVersion.of(ClassFile.of().parse(bytes(Agent.class)));
            WovenAttribute.prepare();
            JavaBase.find("java/lang/Object");
            // A loader of classes has a map of this kind, whose barrier must load none.
            ConcurrentState.isKept(started);
            loadCollections(classes);
            started.loadReadings();
            addReadEdge(instrumentation, Object.class.getModule());
            boolean canRetransform = instrumentation.isRetransformClassesSupported();
            instrumentation.addTransformer(started, canRetransform);
            if (!canRetransform) {
                // Later classes are woven, so that beginning a transaction fails with this message and no other.
                recorder.unwoven.fail("classes of java.util cannot be woven, because the manifest of the jar that "
                        + "starts the agent lacks a line: add Can-Retransform-Classes: true");
                return;
            }
            started.retransform();
            if (recorder.unwoven.guardsReads()) {
                started.weaver.weaveReads();
            }
        }

        /// The first barrier of a thread may be one of a transformer of another agent, which is called for each
        /// class that is loaded: the barrier must not load one.
        private static void initializeHeader() {
            try {
                Class.forName("cedrat.persist.boot.Header", true, null);
            } catch (ClassNotFoundException e) {
                throw new AssertionError("the boot class path lacks what was appended to it", e);
            }
        }

        /// Objects are filled by means of the JDK's own, and barriers read the headers of objects.
        private static void exportUnsafe(Instrumentation instrumentation) {
            instrumentation.redefineModule(
                    Object.class.getModule(),
                    Set.of(),
                    Map.of("jdk.internal.misc", Set.of(Agent.class.getModule(), Barrier.class.getModule())),
                    Map.of(),
                    Set.of(),
                    Map.of());
        }

        /// The virtual machine asks no transformer about a class that is loaded by a transformer, so those of
        /// the JDK that are to be woven are loaded before there is one.
        private static void loadCollections(Classes classes) {
            ModuleReference base = ModuleLayer.boot()
                    .configuration()
                    .findModule("java.base")
                    .orElseThrow()
                    .reference();
            // By the module, since a file system would load the providers of the application, without barriers.
            try (ModuleReader reader = base.open();
                    Stream<String> files = reader.list()) {
                for (String file : files.filter(Started::isOfUtil).toList()) {
                    String name = file.replace(".class", "");
                    if (classes.kind(null, name) == Weaver.Kind.COLLECTION) {
                        Class.forName(name.replace('/', '.'), false, null);
                    }
                }
                for (String name : ConcurrentCollections.classes()) {
                    Class.forName(name.replace('/', '.'), false, null);
                }
            } catch (IOException e) {
                throw new UncheckedIOException("cannot list the classes of java.util", e);
            } catch (ClassNotFoundException e) {
                throw new AssertionError("java.util lists a class that it does not have", e);
            }
        }

        private static boolean isOfUtil(String file) {
            String util = "java/util/";
            return file.startsWith(util) && file.endsWith(".class") && file.indexOf('/', util.length()) < 0;
        }

        /// As above.
        private void loadReadings() {
            for (String name : ReflectiveReads.classes()) {
                try {
                    Class.forName(name.replace('/', '.'), false, null);
                } catch (ClassNotFoundException e) {
                    // The module of sun.misc.Unsafe may be left out; then no class uses it.
                    if (!name.startsWith("sun/misc/")) {
                        recorder.unwoven.leaveUnguarded(name.replace('/', '.') + ", which this JDK does not have");
                    }
                }
            }
        }

        private static byte[] bytes(Class<?> type) {
            try (InputStream in = type.getResourceAsStream(type.getSimpleName() + ".class")) {
                return in.readAllBytes();
            } catch (IOException e) {
                throw new UncheckedIOException("cannot read " + type, e);
            }
        }

        /// Lets a rollback write a package's private fields.
        private static void open(Instrumentation instrumentation, Class<?> declaring) {
            Module own = Agent.class.getModule();
            Module module = declaring.getModule();
            if (!own.canRead(module)) {
                instrumentation.redefineModule(own, Set.of(module), Map.of(), Map.of(), Set.of(), Map.of());
            }
            if (!module.isOpen(declaring.getPackageName(), own)) {
                instrumentation.redefineModule(
                        module,
                        Set.of(),
                        Map.of(),
                        Map.of(declaring.getPackageName(), Set.of(own)),
                        Set.of(),
                        Map.of());
            }
        }

        /// Weaves what was loaded before, and what has been loaded by other threads meanwhile: that may have
        /// begun before there was a transformer.
        private void retransform() {
            Set<Class<?>> seen = Collections.newSetFromMap(new IdentityHashMap<>());
            List<Class<?>> loaded = loaded(seen);
            while (!loaded.isEmpty()) {
                try {
                    instrumentation.retransformClasses(loaded.toArray(new Class<?>[0]));
                } catch (UnmodifiableClassException | UnsupportedOperationException | LinkageError e) {
                    recorder.unwoven.fail("classes that were loaded before the agent cannot be woven: " + e);
                }
                loaded = loaded(seen);
            }
        }

        private List<Class<?>> loaded(Set<Class<?>> seen) {
            List<Class<?>> loaded = new ArrayList<>();
            for (Class<?> type : instrumentation.getAllLoadedClasses()) {
                if (type.isArray() || type.isHidden() || kind(type) == null || !seen.add(type)) {
                    continue;
                }
                if (instrumentation.isModifiableClass(type)) {
                    loaded.add(type);
                } else {
                    recorder.unwoven.fail(type + " was loaded before the agent and cannot be woven");
                }
            }
            return loaded;
        }

        private Weaver.Kind kind(Class<?> type) {
            return classes.kind(type.getClassLoader(), type.getName().replace('.', '/'));
        }

        @Override
        public byte[] transform(
                Module module,
                ClassLoader loader,
                String name,
                Class<?> redefined,
                ProtectionDomain domain,
                byte[] original) {
            String known = name != null ? name : nameIn(original);
            Weaver.Kind kind = known == null ? null : classes.kind(loader, known);
            if (known == null || kind == null && !mayBeBuilt(loader)) {
                return null;
            }
            // The thread may be in a transaction, of which weaving is no part.
            recorder.suspendLoading();
            // If reads are woven, no class of the application has been loaded without, and what it has got
            // more it gets again.
            boolean isLoaded = redefined != null && !weaver.weavesReads();
            try {
                WovenAttribute built = mayBeBuilt(loader) ? WovenAttribute.of(original) : null;
                if (built == null && kind == null) {
                    return null;
                }
                addReadEdge(instrumentation, module);
                if (built != null) {
                    exportReplacements(instrumentation, module);
                    return accepted(loader, original, built, redefined != null);
                }
                ClassModel type = kind == Weaver.Kind.APPLICATION ? Weaver.parse(original) : null;
                if (type != null && Calls.areIn(type)) {
                    return refused(type, original, WovenAttribute.REMOVED, redefined != null);
                }
                if (type != null && !classes.weaves(loader, type)) {
                    return leftOut(type, loader);
                }
                exportReplacements(instrumentation, module);
                if (type != null) {
                    prepare(loader, known, type);
                } else if (kind == Weaver.Kind.READING) {
                    ReflectiveReads.missing(Weaver.parse(original)).forEach(recorder.unwoven::leaveUnguarded);
                }
                return weaver.weave(original, kind, loader, isLoaded, redefined != null);
            } catch (UnstructuredException e) {
                if (isLoaded) {
                    recorder.unwoven.fail(e.getMessage());
                    return null;
                }
                return weaver.refusing(original, e.getMessage());
            } catch (RuntimeException | LinkageError | StackOverflowError e) {
                // Thrown from here it would be dropped.
                String why = "the class " + known.replace('/', '.') + " cannot be woven: " + e;
                return kind == Weaver.Kind.APPLICATION && !isLoaded
                        ? refusingCalls(loader, original, why)
                        : withoutBarriers(kind, loader, original, why);
            } finally {
                recorder.resumeLoading();
            }
        }

        /// Whether a class may be one of the application that a build has woven.
        private static boolean mayBeBuilt(ClassLoader loader) {
            return loader != null && loader != ClassLoader.getPlatformClassLoader();
        }

        /// A class that a build has woven, which stays as it is, or refuses its initialisation.
        private byte[] accepted(ClassLoader loader, byte[] original, WovenAttribute built, boolean isLoaded) {
            ClassModel type = Weaver.parse(original);
            try {
                built.check(classes, loader, type);
                weaver.accept(type, loader, built, isLoaded);
                classes.accept(loader, type);
                return null;
            } catch (IllegalArgumentException e) {
                return refused(type, original, e.getMessage(), isLoaded);
            }
        }

        private byte[] refused(ClassModel type, byte[] original, String reason, boolean isLoaded) {
            String name = type.thisClass().asInternalName().replace('/', '.');
            String why = "cannot use the class " + name + ", because " + reason;
            if (isLoaded) {
                recorder.unwoven.fail(why);
                return null;
            }
            return weaver.refusing(original, why);
        }

        /// A class of the application that needs no barriers.
        private byte[] leftOut(ClassModel type, ClassLoader loader) {
            try {
                return weaver.withSuspensions(type, loader);
            } catch (RuntimeException | LinkageError | StackOverflowError e) {
                // Its initialisation then belongs to the transaction that causes it, which is better than none.
                return null;
            }
        }

        /// Its own methods say it when they are called.
        private byte[] refusingCalls(ClassLoader loader, byte[] original, String why) {
            try {
                return weaver.withoutBarriers(original, loader, why);
            } catch (RuntimeException | LinkageError | StackOverflowError e) {
                return withoutBarriers(Weaver.Kind.APPLICATION, loader, original, why);
            }
        }

        /// Transactions say it when they begin. Others that are woven read its objects, and count on its having an
        /// identity.
        private byte[] withoutBarriers(Weaver.Kind kind, ClassLoader loader, byte[] original, String why) {
            recorder.unwoven.fail(why);
            try {
                return kind == Weaver.Kind.APPLICATION ? weaver.withIdentity(original, loader) : null;
            } catch (RuntimeException | LinkageError | StackOverflowError e) {
                // No transaction begins any more, and no store is opened: nothing leads to an object of it.
                return null;
            }
        }

        /// A loader need not say the name of a class that it defines.
        private static String nameIn(byte[] original) {
            try {
                return ClassFile.of().parse(original).thisClass().asInternalName();
            } catch (IllegalArgumentException e) {
                // It is no class, as the virtual machine will say itself.
                return null;
            }
        }

        /// Notes a class of the application that was loaded before the agent, or with it.
        private void prepare(ClassLoader loader, String name, ClassModel type) {
            if (!weaver.weavesReads() && classes.mayReadPersistent(loader, type)) {
                recorder.unwoven.leaveUnguarded(name.replace('/', '.'));
            }
        }
    }
}
