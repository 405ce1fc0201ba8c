package cedrat.persist.nativestore;

import cedrat.persist.GraphStore;
import cedrat.persist.GraphStoreException;
import cedrat.persist.Store;
import cedrat.persist.View;
import java.nio.file.Path;
import java.util.Optional;

/// Opens stores in folders, kept by libcedrat within this process. `Store.open` finds it as a service.
public final class NativeProvider implements Store.Provider {
    /// One.
    public NativeProvider() {}

    /// Opens a store without an archive.
    public GraphStore open(Path folder, long pageBytesMax) throws GraphStoreException {
        return open(folder, new Files(pageBytesMax, Optional.empty(), Optional.empty(), Optional.empty()));
    }

    @Override
    public GraphStore open(Path folder, Files files) throws GraphStoreException {
        return NativeOpening.open(folder, files);
    }

    @Override
    public GraphStore open(View view, long pageBytesMax, Optional<Keys> keys) throws GraphStoreException {
        return NativeOpening.open(view, pageBytesMax, keys);
    }
}
