package cedrat.persist.weave;

import java.io.IOException;
import java.io.InputStream;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassModel;
import java.lang.classfile.constantpool.FieldRefEntry;
import java.lang.classfile.constantpool.PoolEntry;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;

/// Choice of the classes of the application that are woven, if the agent's argument `include` names packages of it.
///
/// - Woven are the named classes and their subclasses, of which objects can be persistent, and what may begin a
///   transaction or assign to fields of such objects: classes that refer to [cedrat.persist.Transaction], or to a field
///   of a named class or a subclass.
///
/// **Threads:** any.
final class Narrowing {
    /// Names of packages and classes, in internal form.
    private final List<String> included = new ArrayList<>();

    private boolean isOn;
    private final Map<ClassLoader, Known> byLoader = new WeakHashMap<>();

    /// Knowledge of the classes that a class loader defines or finds, by their names in internal form.
    ///
    /// @param isModel whether a class is included
    /// @param woven   the classes that are woven
    private record Known(ConcurrentHashMap<String, Boolean> isModel, Set<String> woven) {}

    private synchronized Known known(ClassLoader loader) {
        return byLoader.computeIfAbsent(
                loader, added -> new Known(new ConcurrentHashMap<>(), ConcurrentHashMap.newKeySet()));
    }

    /// Adds a package or a class of the application.
    void include(String internalName) {
        included.add(internalName);
        isOn = true;
    }

    /// Adds a package or a class of the JDK's tools. These are woven by request only, so that narrows nothing.
    void includeTool(String internalName) {
        included.add(internalName);
    }

    /// Whether packages of the application are named: otherwise all its classes are woven.
    boolean isOn() {
        return isOn;
    }

    /// Whether a class is included by its name.
    boolean isNamed(String internalName) {
        return Classes.isIn(included, internalName);
    }

    /// Whether a class is included: by its name, or as a subclass. What has no class file is not.
    boolean isModel(ClassLoader loader, String internalName) {
        if (isNamed(internalName)) {
            return true;
        }
        if (loader == null || internalName.startsWith("java/")) {
            return false;
        }
        ConcurrentHashMap<String, Boolean> models = known(loader).isModel;
        Boolean known = models.get(internalName);
        if (known != null) {
            return known;
        }
        boolean found = extendsModel(loader, read(loader, internalName));
        // The class may be loaded meanwhile, from other bytes than those of a class file.
        Boolean loaded = models.putIfAbsent(internalName, found);
        return loaded != null ? loaded : found;
    }

    private boolean extendsModel(ClassLoader loader, ClassModel type) {
        return type != null
                && type.superclass().isPresent()
                && isModel(loader, type.superclass().get().asInternalName());
    }

    private static ClassModel read(ClassLoader loader, String internalName) {
        try (InputStream in = loader.getResourceAsStream(internalName + ".class")) {
            return in == null ? null : ClassFile.of().parse(in.readAllBytes());
        } catch (IOException | IllegalArgumentException e) {
            // Loading it will fail, too.
            return null;
        }
    }

    /// Whether a loaded class is included.
    boolean isModel(Class<?> type) {
        for (Class<?> one = type; one != null && one.getClassLoader() != null; one = one.getSuperclass()) {
            if (isNamed(one.getName().replace('.', '/'))) {
                return true;
            }
        }
        return false;
    }

    /// Notes a class that is being loaded and was woven before, by a build.
    void accept(ClassLoader loader, ClassModel type) {
        String name = type.thisClass().asInternalName();
        Known known = known(loader);
        known.isModel.put(name, isNamed(name) || extendsModel(loader, type));
        known.woven.add(name);
    }

    /// Decides whether a class that is being loaded is woven, and keeps the answer.
    ///
    /// @param isInfrastructure whether it is woven in any case
    boolean weaves(ClassLoader loader, ClassModel type, boolean isInfrastructure) {
        String name = type.thisClass().asInternalName();
        boolean isModel = isNamed(name) || extendsModel(loader, type);
        Known known = known(loader);
        // Classes that are generated have no other class file.
        known.isModel.put(name, isModel);
        // A class that is redefined keeps the methods that it got.
        boolean isWoven = known.woven.contains(name)
                || isModel
                || isInfrastructure
                || Weaver.mentionsTransactions(type)
                || refersToModel(loader, type);
        if (isWoven) {
            known.woven.add(name);
        }
        return isWoven;
    }

    /// Whether a class refers to a field of an included class.
    boolean refersToModel(ClassLoader loader, ClassModel type) {
        for (PoolEntry entry : type.constantPool()) {
            if (entry instanceof FieldRefEntry field
                    && isModel(loader, field.owner().asInternalName())) {
                return true;
            }
        }
        return false;
    }

    /// Whether a loaded class is woven; a lambda, as the class that has written it.
    boolean isWoven(Class<?> type) {
        String name = type.getName().replace('.', '/');
        int lambda = type.isHidden() ? name.indexOf("$$Lambda") : -1;
        return known(type.getClassLoader()).woven.contains(lambda < 0 ? name : name.substring(0, lambda));
    }
}
