package cedrat.persist.boot;

/// Assignment of numbers to the fields that woven code names.
///
/// **Threads:** any.
public interface FieldNumbers {
    /// Returns a new number.
    ///
    /// @param owner the binary name of the class that the instruction names
    int add(String owner, String name, boolean isStatic);
}
