package cedrat.persist.weave;

import cedrat.persist.jdk.JavaBase;
import cedrat.persist.memory.MemoFields;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.classfile.ClassModel;
import java.lang.classfile.constantpool.FieldRefEntry;
import java.lang.classfile.constantpool.MethodRefEntry;
import java.lang.classfile.constantpool.PoolEntry;
import java.lang.constant.ConstantDescs;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/// Which classes are woven, and for what: the agent's argument.
final class Classes {
    private static final String OWN = "cedrat/persist/";
    /// Packages of this library: its own, the one on the boot class path, and the one that keeps objects in a folder.
    private static final Set<String> OWN_PACKAGES = Set.of(
            "boot",
            "branch",
            "codec",
            "event",
            "form",
            "jdk",
            "lock",
            "memory",
            "nativestore",
            "record",
            "store",
            "weave");

    /// Whether classes come with the JDK, or lie on the boot class path, by their names.
    private final ConcurrentHashMap<String, Boolean> ofPlatform = new ConcurrentHashMap<>();

    private final List<String> excluded = new ArrayList<>();
    /// Tools of the JDK that are woven.
    private final List<String> tools = new ArrayList<>();

    private final Narrowing narrowing = new Narrowing();
    /// Packages and classes whose changes belong to no transaction, and those in these packages whose changes do.
    private final List<String> infrastructure = new ArrayList<>();

    private final List<String> noInfrastructure = new ArrayList<>();
    private boolean locksReads = true;
    private final MemoFields memos;

    /// @param argument the agent's, may be null
    /// @throws IllegalArgumentException if it is none that the agent takes
    Classes(String argument) {
        List<String> memoFields = new ArrayList<>();
        readInfrastructure();
        if (argument != null && !argument.isEmpty()) {
            parse(argument, memoFields);
        }
        memos = new MemoFields(memoFields);
    }

    private void parse(String argument, List<String> memoFields) {
        for (String part : argument.split(",")) {
            if (part.equals("reads=unlocked")) {
                locksReads = false;
                continue;
            }
            int sign = part.indexOf('=');
            String[] values = part.substring(sign + 1).split(":");
            switch (part.substring(0, Math.max(0, sign))) {
                case "exclude" -> addNames(excluded, values);
                case "include" -> include(values);
                case "infrastructure" -> addNames(infrastructure, values);
                case "memo" -> memoFields.addAll(List.of(values));
                default ->
                    throw new IllegalArgumentException(
                            "invalid argument `" + argument
                                    + "` of the agent: possible are exclude=PACKAGE:PACKAGE…, include=PACKAGE:PACKAGE…, "
                                    + "infrastructure=PACKAGE:PACKAGE…, memo=CLASS#FIELD:CLASS#FIELD…, reads=unlocked, or several of them with commas between");
            }
        }
    }

    private void include(String... names) {
        for (String name : names) {
            String internalName = name.replace('.', '/');
            if (isOfJdk(internalName + "/")) {
                tools.add(internalName);
                narrowing.includeTool(internalName);
            } else {
                narrowing.include(internalName);
            }
        }
    }

    private void readInfrastructure() {
        try (InputStream in = Classes.class.getResourceAsStream("infrastructure.packages")) {
            for (String line : new String(in.readAllBytes(), StandardCharsets.UTF_8).split("\n")) {
                if (line.startsWith("!")) {
                    addNames(noInfrastructure, line.substring(1));
                } else {
                    addNames(infrastructure, line);
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException("cannot read the list of infrastructure", e);
        }
    }

    private static void addNames(List<String> names, String... added) {
        for (String name : added) {
            names.add(name.replace('.', '/'));
        }
    }

    /// Whether changes of a class's objects, and what its code changes, belong to no transaction. Persistent objects
    /// are an exception.
    boolean isInfrastructure(String internalName) {
        return isIn(infrastructure, internalName) && !isIn(noInfrastructure, internalName);
    }

    /// Whether the Java collections that a class of the application changes belong to no transaction, as the fields of
    /// its objects do not.
    boolean isOutside(Class<?> type) {
        String internalName = type.getName().replace('.', '/');
        return isInfrastructure(internalName)
                || isIn(excluded, internalName)
                || narrowing.isOn() && !isOwn(internalName) && !narrowing.isWoven(type);
    }

    /// Whether a class is one that the agent's argument `include` leaves out: code that has no barriers may change its
    /// objects, so no rollback could restore all of an object.
    ///
    /// @param internalName of a class that may be one of the JDK
    boolean isLeftOut(String internalName) {
        return narrowing.isOn()
                && !narrowing.isNamed(internalName)
                && !isInfrastructure(internalName)
                && !internalName.startsWith("[")
                && !isOfPlatform(internalName);
    }

    /// Whether the fields that a loaded class declares have barriers wherever they are assigned.
    boolean hasBarriers(Class<?> declaring) {
        ClassLoader loader = declaring.getClassLoader();
        if (!narrowing.isOn() || loader == null || loader == ClassLoader.getPlatformClassLoader()) {
            return true;
        }
        String internalName = declaring.getName().replace('.', '/');
        return isInfrastructure(internalName) || !isIn(excluded, internalName) && narrowing.isModel(declaring);
    }

    /// Whether a class of the application may read fields of persistent objects, or is one of such objects.
    boolean mayReadPersistent(ClassLoader loader, ClassModel type) {
        return !narrowing.isOn()
                || narrowing.isModel(loader, type.thisClass().asInternalName())
                || narrowing.refersToModel(loader, type);
    }

    /// Whether a class of kind [Weaver.Kind#APPLICATION] that is being loaded is woven.
    boolean weaves(ClassLoader loader, ClassModel type) {
        return !narrowing.isOn()
                || narrowing.weaves(
                        loader, type, isInfrastructure(type.thisClass().asInternalName()));
    }

    /// Notes a class that a build has woven, whatever its bytes refer to now.
    void accept(ClassLoader loader, ClassModel type) {
        if (narrowing.isOn()) {
            narrowing.accept(loader, type);
        }
    }

    /// Returns what the agent's arguments say of a class, of the classes whose fields it reads or writes, and of
    /// those of which it makes objects, by their internal names: how a class is woven follows from that, and from
    /// its bytes.
    Map<String, String> choices(ClassLoader loader, ClassModel type) {
        // What is said of the class itself comes first, as it does in messages.
        Map<String, String> choices = new LinkedHashMap<>();
        put(choices, loader, "");
        put(choices, loader, type.thisClass().asInternalName());
        type.superclass().ifPresent(superclass -> put(choices, loader, superclass.asInternalName()));
        for (PoolEntry entry : type.constantPool()) {
            if (entry instanceof FieldRefEntry field) {
                put(choices, loader, field.owner().asInternalName());
            } else if (entry instanceof MethodRefEntry method && isConstructorOfApplication(method)) {
                put(choices, loader, method.owner().asInternalName());
            }
        }
        return choices;
    }

    private boolean isConstructorOfApplication(MethodRefEntry method) {
        return method.name().equalsString(ConstantDescs.INIT_NAME)
                && !isOfPlatform(method.owner().asInternalName());
    }

    private void put(Map<String, String> choices, ClassLoader loader, String internalName) {
        choices.computeIfAbsent(internalName, name -> choice(loader, name));
    }

    /// Returns the same as [#choices], for one of the names.
    String choice(ClassLoader loader, String internalName) {
        if (internalName.isEmpty()) {
            return locksReads ? "reads=locked" : "reads=unlocked";
        }
        boolean isNeverPersistent = isNeverPersistent(loader, internalName);
        return (isPersistable(loader, internalName) ? "persistable" : "not persistable")
                + (isNeverPersistent ? ", left out" : "")
                + (!isNeverPersistent && isLeftOut(internalName) ? ", included as a subclass" : "")
                + (isInfrastructure(internalName) ? ", infrastructure" : "");
    }

    /// Returns the fields that belong to no transaction.
    MemoFields memos() {
        return memos;
    }

    /// Whether reads have barriers that can lock what is read.
    boolean locksReads() {
        return locksReads;
    }

    /// Whether objects of a class may become persistent, should it be woven: its superclass, or one whose
    /// field is read, has to be judged before it is loaded. What has the name of a class of the JDK is taken
    /// for that.
    boolean isPersistable(ClassLoader loader, String internalName) {
        return kind(loader, internalName) == Weaver.Kind.APPLICATION
                && !isOfPlatform(internalName)
                && (!narrowing.isOn() || narrowing.isModel(loader, internalName));
    }

    /// Whether no object of a class of the application is persistent, because the class is left out.
    boolean isNeverPersistent(ClassLoader loader, String internalName) {
        return narrowing.isOn() && !isOfPlatform(internalName) && !narrowing.isModel(loader, internalName);
    }

    private boolean isOfPlatform(String internalName) {
        Boolean known = ofPlatform.get(internalName);
        if (known == null) {
            known = ClassLoader.getPlatformClassLoader().getResource(internalName + ".class") != null;
            ofPlatform.put(internalName, known);
        }
        return known;
    }

    /// The purpose for which a class is woven; one of the application only if [#weaves] says so.
    ///
    /// @return null if it is left as it is
    Weaver.Kind kind(ClassLoader loader, String internalName) {
        if (loader == null || loader == ClassLoader.getPlatformClassLoader()) {
            if (internalName.equals("java/lang/Enum")) {
                return Weaver.Kind.HASHING;
            }
            if (internalName.equals("java/util/stream/AbstractPipeline")) {
                return Weaver.Kind.STREAM;
            }
            if (Suspensions.contains(internalName)) {
                return Weaver.Kind.SUSPENDING;
            }
            if (ReflectiveReads.contains(internalName)) {
                return Weaver.Kind.READING;
            }
            if (ConcurrentCollections.contains(internalName)) {
                return Weaver.Kind.CONCURRENT;
            }
            return JavaBase.isWoven(internalName) ? Weaver.Kind.COLLECTION : null;
        }
        boolean isTool = isOfJdk(internalName) && !isIn(tools, internalName);
        return isOwn(internalName) || isTool || isIn(excluded, internalName) ? null : Weaver.Kind.APPLICATION;
    }

    private static boolean isOwn(String internalName) {
        if (!internalName.startsWith(OWN)) {
            return false;
        }
        int end = internalName.indexOf('/', OWN.length());
        return end < 0 || OWN_PACKAGES.contains(internalName.substring(OWN.length(), end));
    }

    /// Tools of the JDK are loaded by the application's class loader.
    private static boolean isOfJdk(String internalName) {
        return internalName.startsWith("jdk/")
                || internalName.startsWith("com/sun/tools/")
                || internalName.startsWith("sun/");
    }

    /// Whether a class is one of those named, or is in one of the packages named, or is a member of one.
    static boolean isIn(List<String> names, String internalName) {
        for (String name : names) {
            if (internalName.startsWith(name)
                    && (internalName.length() == name.length()
                            || internalName.charAt(name.length()) == '/'
                            || internalName.charAt(name.length()) == '$')) {
                return true;
            }
        }
        return false;
    }
}
