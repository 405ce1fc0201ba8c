package cedrat.persist;

import java.util.Optional;

/// The result of a backup.
///
/// @param upTo           every transaction that had committed up to this LSN is in the backup
/// @param bytes          the number of bytes of pages and heaps that were read
/// @param cannotContinue the reason why no incremental backup can continue this one; empty if one can. The backup is
///     complete in any case
public record BackupReport(long upTo, long bytes, Optional<String> cannotContinue) {}
