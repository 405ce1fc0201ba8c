package cedrat.persist.libraries;

import java.util.TreeSet;
import java.util.function.Supplier;
import org.jgrapht.Graph;
import org.jgrapht.alg.shortestpath.DijkstraShortestPath;
import org.jgrapht.alg.util.Pair;
import org.jgrapht.alg.util.UnionFind;
import org.jgrapht.graph.AsUnmodifiableGraph;
import org.jgrapht.graph.DefaultDirectedGraph;
import org.jgrapht.graph.DefaultEdge;
import org.jgrapht.graph.DefaultWeightedEdge;
import org.jgrapht.graph.DirectedAcyclicGraph;
import org.jgrapht.graph.SimpleGraph;
import org.jgrapht.graph.SimpleWeightedGraph;

/// Kinds of JGraphT.
final class GraphKinds {
    private GraphKinds() {}

    static void addTo(Kinds kinds) {
        kinds.of("JGraphT");
        graph(kinds, "SimpleGraph", () -> new SimpleGraph<>(DefaultEdge.class));
        graph(kinds, "DefaultDirectedGraph", () -> new DefaultDirectedGraph<>(DefaultEdge.class));
        graph(kinds, "DirectedAcyclicGraph", () -> new DirectedAcyclicGraph<>(DefaultEdge.class));
        graph(kinds, "SimpleWeightedGraph", () -> new SimpleWeightedGraph<>(DefaultWeightedEdge.class));
        kinds.value(
                        "AsUnmodifiableGraph",
                        () -> new AsUnmodifiableGraph<>(filled(new SimpleGraph<>(DefaultEdge.class))),
                        it -> new AsUnmodifiableGraph<>(new SimpleGraph<>(DefaultEdge.class)),
                        GraphKinds::shown)
                .value("Pair", () -> Pair.of("a", 1), it -> Pair.of("b", 2), Object::toString)
                .mutable(
                        "UnionFind",
                        () -> new UnionFind<>(new TreeSet<>(java.util.List.of("a", "b"))),
                        it -> it.union("a", "b"),
                        it -> it.numberOfSets() + " " + it.size());
    }

    private static <E> Graph<String, E> filled(Graph<String, E> graph) {
        graph.addVertex("a");
        graph.addVertex("b");
        graph.addVertex("c");
        graph.addEdge("a", "b");
        return graph;
    }

    private static <E> void graph(Kinds kinds, String name, Supplier<Graph<String, E>> make) {
        kinds.mutable(name, () -> filled(make.get()), it -> it.addEdge("b", "c"), GraphKinds::shown);
    }

    private static String shown(Graph<String, ?> graph) {
        return new TreeSet<>(graph.vertexSet()) + " " + graph.edgeSet().size() + graph.containsEdge("a", "b")
                + graph.degreeOf("a") + path(graph);
    }

    private static <E> String path(Graph<String, E> graph) {
        var path = graph.containsVertex("c") ? DijkstraShortestPath.findPathBetween(graph, "a", "c") : null;
        return path == null ? "" : path.getVertexList().toString();
    }
}
