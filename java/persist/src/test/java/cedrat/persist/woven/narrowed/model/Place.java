package cedrat.persist.woven.narrowed.model;

import cedrat.persist.woven.narrowed.library.Point;

/// An object with a superclass that is not included.
public final class Place extends Point {
    public int visits;
}
