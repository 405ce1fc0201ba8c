package cedrat.oracle.server;

/// Bugs that tests plant, to see that they are found.
enum Fault {
    NONE,
    REPLIES_BEFORE_THE_LOG,
    STARTS_BEFORE_THE_LOG,
    APPENDS_FROM_BEFORE_ANSWER,
    RESENT_COMMITS_CONFLICT
}
