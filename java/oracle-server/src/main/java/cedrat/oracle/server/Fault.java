package cedrat.oracle.server;

/// Bugs that tests plant, to see that they are found.
enum Fault {
    NONE,
    REPLIES_BEFORE_THE_LOG,
    STARTS_BEFORE_THE_LOG,
    APPENDS_FROM_BEFORE_ANSWER,
    RESENT_COMMITS_CONFLICT,
    /// A sweep of one namespace makes outcomes forgotten that another one needs.
    FORGETS_NAMESPACES,
    /// Namespaces whose rows end with their sessions stay.
    KEEPS_VOLATILE_NAMESPACES,
    /// Transactions whose client does not announce them stay open.
    KEEPS_UNANNOUNCED,
    /// Transactions of a recovered oracle stay open without a client.
    KEEPS_RECOVERED,
    /// Silent sessions do not expire.
    KEEPS_SILENT,
    /// A server whose log has failed goes on without it.
    IGNORES_FAILURES,
    /// Clients of another oracle are served.
    SERVES_OTHERS,
    /// Limits of clients delay and refuse nothing.
    IGNORES_LIMITS,
    /// A frame counts as one request for the limits of its client, whatever it contains.
    COUNTS_FRAMES,
    /// Changed roles and limits are not read.
    KEEPS_ROLES,
    /// A connection that is cut counts as before.
    KEEPS_CUT_CONNECTIONS,
    /// A transaction that has only read commits though its session has expired and its snapshot was pruned.
    COMMITS_PRUNED_READERS
}
