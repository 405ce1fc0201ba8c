package cedrat.persist.woven.narrowed.library;

/// An object that others change.
public class Point {
    public static int made;

    public int x;
    public int y;

    /// Moves it by a method of its own.
    public void move() {
        x++;
        y++;
    }

    @Override
    public String toString() {
        return x + "," + y;
    }
}
