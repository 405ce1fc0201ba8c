package cedrat.oracle.server;

import java.util.List;

/// Subcommands of `cedrat-oracle` from another artifact, as objects of picocli.
///
/// Found as a service (`java.util.ServiceLoader`): the server's own artifact does not need what these commands need.
public interface Subcommands {
    /// Returns fresh commands.
    List<Object> commands();
}
