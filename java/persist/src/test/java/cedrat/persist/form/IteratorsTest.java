package cedrat.persist.form;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import cedrat.persist.PersistenceRuntime;
import cedrat.persist.jdk.JavaBase;
import cedrat.persist.record.Recorder;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Hashtable;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Properties;
import java.util.Set;
import java.util.Spliterator;
import java.util.Stack;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.Vector;
import org.junit.jupiter.api.Test;

/// J3.2, J5: what runs over a collection, or shows it, has barriers as the collection has.
class IteratorsTest {
    /// A view of a view of a view has no class that those have not.
    private static final int DEPTH = 3;

    private static final List<Class<?>> SHOWN =
            List.of(Iterator.class, Enumeration.class, Spliterator.class, Collection.class, Map.class, Map.Entry.class);

    private static <T extends Collection<? super Integer>> T filled(T collection) {
        collection.add(1);
        collection.add(2);
        return collection;
    }

    private static <T extends Map<? super String, ? super Integer>> T filled(T map) {
        map.put("1", 1);
        map.put("2", 2);
        return map;
    }

    private static List<Object> collections() {
        return List.of(
                filled(new ArrayList<>()),
                filled(new LinkedList<>()),
                filled(new Vector<>()),
                filled(new Stack<>()),
                filled(new ArrayDeque<>()),
                filled(new PriorityQueue<>()),
                filled(new HashSet<>()),
                filled(new LinkedHashSet<>()),
                filled(new TreeSet<>()),
                filled(new HashMap<>()),
                filled(new LinkedHashMap<>()),
                filled(new TreeMap<>()),
                filled(new Hashtable<>()),
                filled(new IdentityHashMap<>()),
                Arrays.asList(1, 2),
                EnumSet.allOf(Thread.State.class),
                EnumSet.allOf(Character.UnicodeScript.class),
                new EnumMap<>(Map.of(Thread.State.NEW, 1, Thread.State.BLOCKED, 2)),
                List.of(1),
                List.of(1, 2, 3),
                Set.of(1),
                Set.of(1, 2, 3),
                Map.of(1, 1),
                Map.of(1, 1, 2, 2),
                Collections.unmodifiableList(Arrays.asList(1, 2)),
                Collections.synchronizedMap(filled(new TreeMap<>())));
    }

    /// The Java collections that a store can have, except those of `Collections`, which are woven with it. `Properties`
    /// and the collections of `java.util.concurrent` are saved as a whole.
    @Test
    void theListHasAllThatAreStored() throws ReflectiveOperationException {
        ClassLoader loader = IteratorsTest.class.getClassLoader();
        var settings = new PersistenceRuntime.Settings(
                true,
                false,
                loader,
                1,
                Map.of(),
                Map.of(),
                Set.of(),
                Map.of(),
                Map.of(),
                Map.of(),
                Map.of(),
                System::nanoTime);
        Forms forms = new Forms(Recorder.get().fields(), settings);
        var byClass = Forms.class.getDeclaredField("byClass");
        byClass.setAccessible(true);
        Set<Class<?>> left = new HashSet<>();
        for (Object type : ((Map<?, ?>) byClass.get(forms)).keySet()) {
            left.add((Class<?>) type);
        }
        left.removeIf(type -> !Collection.class.isAssignableFrom(type) && !Map.class.isAssignableFrom(type)
                || type.getName().startsWith("java.util.Collections$")
                || type.getName().startsWith("java.util.concurrent.")
                || type == Properties.class);
        collections().forEach(collection -> left.remove(collection.getClass()));
        assertEquals(Set.of(), left);
    }

    /// J3.2.
    /// But what has nothing of its own, and asks an enumeration that is.
    @Test
    void collectionIteratorsAreWoven() throws ReflectiveOperationException {
        Set<Class<?>> seen = new HashSet<>();
        for (Object collection : collections()) {
            look(collection, DEPTH, seen);
        }
        assertTrue(seen.size() > 100, seen.size() + " classes");
        List<String> without = seen.stream()
                .map(Class::getName)
                .filter(name -> !JavaBase.isWoven(name.replace('.', '/')) && !name.equals("java.util.Enumeration$1"))
                .sorted()
                .toList();
        assertEquals(List.of(), without);
    }

    private static void look(Object object, int depth, Set<Class<?>> seen) throws ReflectiveOperationException {
        seen.add(object.getClass());
        if (depth == 0) {
            return;
        }
        for (Method method : shown(object)) {
            Object view;
            try {
                view = method.invoke(object);
            } catch (InvocationTargetException e) {
                // Not each has all that its interfaces have.
                if (!(e.getCause() instanceof RuntimeException)) {
                    throw e;
                }
                continue;
            }
            if (view != null) {
                look(view, depth - 1, seen);
            }
        }
    }

    /// Methods that show or run over the content of an object, of any visibility.
    private static List<Method> shown(Object object) {
        List<Method> found = new ArrayList<>();
        for (Method method : object.getClass().getMethods()) {
            boolean isShown = method.getParameterCount() == 0
                    && !Modifier.isStatic(method.getModifiers())
                    && SHOWN.stream().anyMatch(type -> type.isAssignableFrom(method.getReturnType()));
            Method callable = isShown ? callable(object.getClass(), method.getName()) : null;
            if (callable != null) {
                found.add(callable);
            }
        }
        return found;
    }

    private static Method callable(Class<?> type, String name) {
        for (Class<?> ancestor = type; ancestor != null; ancestor = ancestor.getSuperclass()) {
            Method own = Modifier.isPublic(ancestor.getModifiers()) ? find(ancestor, name) : null;
            if (own != null) {
                return own;
            }
            for (Class<?> one : ancestor.getInterfaces()) {
                Method inherited = Modifier.isPublic(one.getModifiers()) ? find(one, name) : null;
                if (inherited != null) {
                    return inherited;
                }
            }
        }
        return null;
    }

    private static Method find(Class<?> type, String name) {
        try {
            return type.getMethod(name);
        } catch (NoSuchMethodException e) {
            return null;
        }
    }
}
