package cedrat.persist.libraries;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.IntNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.node.TextNode;
import org.apache.jena.graph.Graph;
import org.apache.jena.graph.Node;
import org.apache.jena.graph.NodeFactory;
import org.apache.jena.graph.Triple;
import org.apache.jena.rdf.model.Model;
import org.apache.jena.rdf.model.ModelFactory;
import org.apache.poi.hssf.usermodel.HSSFWorkbook;
import org.apache.poi.ss.util.CellAddress;
import org.apache.poi.ss.util.CellRangeAddress;
import org.apache.poi.ss.util.CellReference;
import org.jsoup.Jsoup;
import org.jsoup.nodes.Attributes;
import org.jsoup.nodes.Document;
import org.jsoup.nodes.Element;

/// Kinds of the libraries of documents.
final class DocumentKinds {
    private DocumentKinds() {}

    static void addTo(Kinds kinds) {
        addJson(kinds.of("Jackson"));
        addSheets(kinds.of("POI"));
        addHtml(kinds.of("jsoup"));
        addRdf(kinds.of("Jena"));
    }

    private static JsonNode parsed(String text) {
        try {
            return new ObjectMapper().readTree(text);
        } catch (JsonProcessingException e) {
            throw new AssertionError(e);
        }
    }

    private static void addJson(Kinds kinds) {
        kinds.mutable(
                        "ObjectNode",
                        () -> (ObjectNode)
                                parsed("{\"a\": [1, 2.5, true, null, \"x\"], \"b\": {\"c\": 12345678901234567890}}"),
                        it -> it.put("d", 7),
                        it -> it + " " + it.get("a").get(0))
                .mutable("ArrayNode", () -> (ArrayNode) parsed("[1, \"a\"]"), it -> it.add(5), Object::toString)
                .value("TextNode", () -> TextNode.valueOf("a"), it -> TextNode.valueOf("b"), Object::toString)
                .value("IntNode", () -> IntNode.valueOf(5), it -> IntNode.valueOf(5_000), Object::toString)
                .value(
                        "NullNode",
                        () -> (Object) NullNode.getInstance(),
                        it -> TextNode.valueOf("b"),
                        it -> it + " " + (it == NullNode.getInstance()))
                .value(
                        "JsonNodeFactory",
                        () -> JsonNodeFactory.instance,
                        it -> new JsonNodeFactory(true),
                        it -> it.numberNode(5) + " " + it.objectNode())
                .value("ObjectMapper", ObjectMapper::new, it -> new ObjectMapper(), it -> {
                    try {
                        return it.writeValueAsString(new int[] {1, 2});
                    } catch (JsonProcessingException e) {
                        throw new AssertionError(e);
                    }
                });
    }

    private static void addSheets(Kinds kinds) {
        kinds.mutable(
                        "HSSFWorkbook",
                        () -> {
                            HSSFWorkbook book = new HSSFWorkbook();
                            book.createSheet("s").createRow(1).createCell(2).setCellValue("a");
                            return book;
                        },
                        it -> it.getSheet("s").createRow(2).createCell(3).setCellValue(5),
                        it -> it.getSheet("s").getRow(1).getCell(2) + " "
                                + it.getSheet("s").getLastRowNum())
                .value("CellReference", () -> new CellReference("A5"), it -> new CellReference("B7"), Object::toString)
                .value("CellAddress", () -> new CellAddress("A5"), it -> new CellAddress("B7"), Object::toString)
                .mutable(
                        "CellRangeAddress",
                        () -> CellRangeAddress.valueOf("A5:B7"),
                        it -> it.setLastRow(9),
                        it -> it.formatAsString());
    }

    private static void addHtml(Kinds kinds) {
        kinds.mutable(
                        "Document",
                        () -> Jsoup.parse("<p class='x'>a<b>c</b></p><p id=y>"),
                        (Document it) -> it.body().appendElement("i").text("z"),
                        it -> it.body().html() + " " + it.select("p.x b").text() + it.getElementById("y"))
                .mutable("Element", () -> new Element("p").text("a"), it -> it.addClass("x"), Object::toString)
                .mutable(
                        "Attributes",
                        () -> new Attributes().put("a", "1"),
                        it -> it.put("b", "2"),
                        it -> it + " " + it.get("a"));
    }

    private static void addRdf(Kinds kinds) {
        Node a = NodeFactory.createURI("urn:a");
        Node b = NodeFactory.createLiteralString("b");
        kinds.value(
                        "Node",
                        () -> NodeFactory.createURI("urn:a"),
                        it -> NodeFactory.createURI("urn:b"),
                        Object::toString)
                .value(
                        "literal",
                        () -> NodeFactory.createLiteralLang("a", "de"),
                        it -> NodeFactory.createLiteralString("b"),
                        it -> it + " " + it.getLiteralValue())
                .value("Triple", () -> Triple.create(a, a, b), it -> Triple.create(a, a, a), Object::toString)
                .mutable(
                        "Graph",
                        () -> {
                            Graph graph = org.apache.jena.graph.GraphMemFactory.createDefaultGraph();
                            graph.add(Triple.create(a, a, b));
                            return graph;
                        },
                        it -> it.add(Triple.create(a, a, a)),
                        it -> it.size() + " " + it.contains(a, a, b)
                                + it.find(a, a, Node.ANY).toList().size())
                .mutable(
                        "Model",
                        () -> {
                            Model model = ModelFactory.createDefaultModel();
                            model.createResource("urn:a").addProperty(model.createProperty("urn:p"), "x");
                            return model;
                        },
                        it -> it.createResource("urn:b").addProperty(it.createProperty("urn:p"), "y"),
                        it -> it.size() + " " + it.listSubjects().toList().size());
    }
}
