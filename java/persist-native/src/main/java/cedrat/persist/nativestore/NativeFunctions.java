package cedrat.persist.nativestore;

import cedrat.library.Libcedrat;
import java.io.IOException;
import java.lang.foreign.MemorySegment;

/// Addresses of the native functions of [NativeGraphStore].
final class NativeFunctions {
    final MemorySegment open;
    final MemorySegment openAsOf;
    final MemorySegment close;
    final MemorySegment message;
    final MemorySegment isStable;
    final MemorySegment backup;
    final MemorySegment rotateKey;
    final MemorySegment graphOpen;
    final MemorySegment graphClose;
    final MemorySegment graphMessage;
    final MemorySegment getClass;
    final MemorySegment getRoots;
    final MemorySegment read;
    final MemorySegment readMany;
    final MemorySegment commit;
    final MemorySegment recordsOpen;
    final MemorySegment heapOpen;
    final MemorySegment heapCreate;
    final MemorySegment prepare;
    final MemorySegment getBranch;
    final MemorySegment commitPrepared;
    final MemorySegment rollbackPrepared;
    final MemorySegment inDoubt;
    final MemorySegment heuristic;
    final MemorySegment forget;
    final MemorySegment statusName;
    final NativeCollection.Functions collections;
    final NativeFaces.Functions faces;

    NativeFunctions(Libcedrat library) throws IOException {
        open = library.function("cedrat_open");
        openAsOf = library.function("cedrat_open_as_of");
        close = library.function("cedrat_close");
        message = library.function("cedrat_message");
        isStable = library.function("cedrat_is_stable");
        backup = library.function("cedrat_backup");
        rotateKey = library.function("cedrat_rotate_key");
        graphOpen = library.function("cedrat_graph_open");
        graphClose = library.function("cedrat_graph_close");
        graphMessage = library.function("cedrat_graph_message");
        getClass = library.function("cedrat_graph_get_class");
        getRoots = library.function("cedrat_graph_get_roots");
        read = library.function("cedrat_graph_read");
        readMany = library.function("cedrat_graph_read_many");
        commit = library.function("cedrat_graph_commit");
        recordsOpen = library.function("cedrat_records_open");
        heapOpen = library.function("cedrat_heap_open");
        heapCreate = library.function("cedrat_heap_create");
        prepare = library.function("cedrat_graph_prepare");
        getBranch = library.function("cedrat_graph_get_branch");
        commitPrepared = library.function("cedrat_commit_prepared");
        rollbackPrepared = library.function("cedrat_rollback_prepared");
        inDoubt = library.function("cedrat_in_doubt");
        heuristic = library.function("cedrat_heuristic_branches");
        forget = library.function("cedrat_forget");
        statusName = library.function("cedrat_status_name");
        collections = new NativeCollection.Functions(library);
        faces = new NativeFaces.Functions(library);
    }
}
