package cedrat.persist.woven.weave.far;

/// Known in this package only.
class Unnameable {}
