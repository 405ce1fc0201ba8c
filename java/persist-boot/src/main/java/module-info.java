/// The methods that woven code calls. At run time they are on the boot class path, which belongs to no
/// named module.
module cedrat.persist.boot {
    exports cedrat.persist.boot;
}
