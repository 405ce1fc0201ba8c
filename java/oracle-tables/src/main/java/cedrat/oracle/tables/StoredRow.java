package cedrat.oracle.tables;

import java.util.NavigableMap;
import java.util.NavigableSet;

/// Stored content of a row at one moment.
///
/// @param key the row's
/// @param versions for each column its versions, by timestamp
/// @param pending the start timestamps whose marker is set: versions of these are not known to be committed
public record StoredRow(
        Bytes key, NavigableMap<Column, NavigableMap<Long, Bytes>> versions, NavigableSet<Long> pending) {}
