/// Persistent Java objects in a directory, by libcedrat.
module cedrat.persist.nativestore {
    requires cedrat.library;
    requires cedrat.persist;

    provides cedrat.persist.Store.Provider with
            cedrat.persist.nativestore.NativeProvider;
}
