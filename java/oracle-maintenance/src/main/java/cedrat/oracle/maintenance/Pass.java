package cedrat.oracle.maintenance;

import cedrat.oracle.tables.TableException;
import java.util.List;
import java.util.SequencedMap;

/// Result of a pass of a job over the tables of a namespace.
///
/// @param tables number of visited tables
/// @param figures numbers by their names
/// @param refusals reasons of the tables that were left out
record Pass(int tables, SequencedMap<String, Long> figures, List<TableException> refusals) {}
