package cedrat.oracle.client;

import cedrat.oracle.protocol.FrameWriter;
import cedrat.oracle.protocol.Protocol;
import java.util.LinkedHashMap;
import java.util.Map;

/// Namespaces that a server has accepted, to be named again to the next, and the flags of that. For one thread at a
/// time.
final class UsedNamespaces {
    private final Map<Long, Integer> flagsOf = new LinkedHashMap<>();

    /// A server has accepted one.
    void accepted(long namespace, int flags) {
        if ((flags & Protocol.FLAG_RETIRED) == 0) {
            flagsOf.put(namespace, flags);
        } else {
            flagsOf.remove(namespace);
        }
    }

    /// Writes a request for each.
    void write(FrameWriter out, long id) {
        flagsOf.forEach((namespace, flags) -> out.namespace(id, namespace, flags));
    }
}
