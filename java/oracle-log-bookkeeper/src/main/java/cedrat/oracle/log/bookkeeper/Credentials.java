package cedrat.oracle.log.bookkeeper;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.curator.framework.api.ACLProvider;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.data.ACL;

/// Name and password at ZooKeeper, by its scheme `digest`.
final class Credentials {
    private Credentials() {}

    /// Gives each node to those that have made it. Clients may read the nodes of the election, which have the addresses
    /// of servers.
    ///
    /// @param election path of the election
    static ACLProvider owned(String election) {
        List<ACL> readable = new ArrayList<>(ZooDefs.Ids.CREATOR_ALL_ACL);
        readable.addAll(ZooDefs.Ids.READ_ACL_UNSAFE);
        return new ACLProvider() {
            @Override
            public List<ACL> getDefaultAcl() {
                return ZooDefs.Ids.CREATOR_ALL_ACL;
            }

            @Override
            public List<ACL> getAclForPath(String path) {
                return path.equals(election) || path.startsWith(election + "/") ? readable : getDefaultAcl();
            }
        };
    }

    /// Reads NAME:PASSWORD.
    ///
    /// @throws IOException if the file cannot be read, or has something else
    static byte[] read(Path file) throws IOException {
        String text;
        try {
            text = Files.readString(file).strip();
        } catch (IOException problem) {
            throw new IOException("cannot read the credentials for ZooKeeper in " + file + ": " + problem, problem);
        }
        if (!text.matches("[^:\\s]+:\\S+")) {
            throw new IOException(file + " has no credentials for ZooKeeper: write NAME:PASSWORD, without spaces");
        }
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
