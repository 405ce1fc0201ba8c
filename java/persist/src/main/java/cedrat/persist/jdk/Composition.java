package cedrat.persist.jdk;

import cedrat.persist.jdk.JavaBase.Treatment;
import java.text.DateFormatSymbols;
import java.text.DecimalFormatSymbols;
import java.util.Enumeration;
import java.util.Iterator;
import java.util.TimeZone;
import java.util.concurrent.atomic.AtomicLong;

/// The parts of an object of the JDK that is saved before calls.
public final class Composition {
    private Composition() {}

    /// Whether what an object's field leads to is a part of the object: arrays, and what else its methods
    /// change. The rest has barriers, does not change, or is shared with objects that have nothing to do with
    /// it.
    public static boolean isPart(Treatments treatments, Object whole, Object part) {
        if (isIterator(whole)) {
            return isIterator(part) && treatments.of(part.getClass()) != Treatment.WOVEN;
        }
        return switch (part) {
            case null -> false;
            // Objects that have these have them to themselves, or share them and do not change them.
            case TimeZone shared -> false;
            case DateFormatSymbols shared -> false;
            case DecimalFormatSymbols shared -> false;
            // The seed of a Random.
            case AtomicLong number -> true;
            default -> {
                Class<?> type = part.getClass();
                yield type.isArray()
                        || isDate(type)
                        || type.getName().equals("java.text.DigitList")
                        || type.getClassLoader() == null && treatments.of(type) == Treatment.SAVED;
            }
        };
    }

    /// An iterator's arrays are those of the collection that it runs over. A `TableStack` says where one of a
    /// `ConcurrentHashMap` is while the map grows.
    private static boolean isIterator(Object object) {
        return object instanceof Iterator
                || object instanceof Enumeration
                || object != null
                        && object.getClass().getName().equals("java.util.concurrent.ConcurrentHashMap$TableStack");
    }

    /// Fields of a date, as calendars have them.
    private static boolean isDate(Class<?> type) {
        for (Class<?> ancestor = type; ancestor != null; ancestor = ancestor.getSuperclass()) {
            if (ancestor.getName().equals("sun.util.calendar.CalendarDate")) {
                return true;
            }
        }
        return false;
    }
}
