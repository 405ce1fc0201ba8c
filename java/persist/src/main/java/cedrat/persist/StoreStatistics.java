package cedrat.persist;

/// Counters of a store since it was opened, from [Store#statistics]. They were read one after the other.
///
/// @param commits         transactions whose changes were stored, branches included
/// @param refusedCommits  transactions that were rolled back, because their changes could not be stored
/// @param committedBytes  size of the changes in the log, in bytes
/// @param newObjects      objects that became persistent
/// @param loadedObjects   objects that were read into memory
/// @param unloadedObjects objects whose references were dropped from memory, because more than `loadedBytesMax` was
///     loaded
/// @param loadedBytes     estimated size of the objects that are loaded now, in bytes
/// @param collections     garbage collections that have ended
/// @param removedObjects  objects that garbage collections have removed
public record StoreStatistics(
        long commits,
        long refusedCommits,
        long committedBytes,
        long newObjects,
        long loadedObjects,
        long unloadedObjects,
        long loadedBytes,
        long collections,
        long removedObjects) {}
