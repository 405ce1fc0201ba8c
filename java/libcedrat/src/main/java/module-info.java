/// Where libcedrat is, for what calls it through `java.lang.foreign`.
module cedrat.library {
    exports cedrat.library;
}
