/// The form of figures that others read, and of goals.
module cedrat.bench.figures {
    exports cedrat.bench.figures;
}
