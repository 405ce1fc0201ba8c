/// The calls of woven code. Programs run with them on the boot class path, where no module has a name.
module cedrat.persist.boot {
    exports cedrat.persist.boot;
}
