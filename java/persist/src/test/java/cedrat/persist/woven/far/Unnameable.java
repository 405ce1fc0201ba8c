package cedrat.persist.woven.far;

/// Known in this package only.
class Unnameable {}
