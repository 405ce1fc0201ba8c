/// Persistent Java objects in a directory, by libcedrat.
module cedrat.persist.nativestore {
    requires cedrat.library;
    requires cedrat.persist;

    provides cedrat.persist.Persistence.Provider with
            cedrat.persist.nativestore.NativeProvider;
}
