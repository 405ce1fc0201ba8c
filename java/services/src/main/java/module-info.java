/// Services that the oracle stands on, started as processes of this machine: for tests, for figures, and to
/// try things out.
module cedrat.services {
    exports cedrat.services;
}
