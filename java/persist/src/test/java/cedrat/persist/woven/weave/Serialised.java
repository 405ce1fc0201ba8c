package cedrat.persist.woven.weave;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;

/// A program that says what its classes are for serialisation, for other processes.
@SuppressWarnings("serial")
final class Serialised {
    private Serialised() {}

    private static class Base implements Serializable {
        private static int made;

        final int number = ++made;

        Base next() {
            return null;
        }
    }

    private static final class Node extends Base {
        Node next;

        @Override
        Node next() {
            return next;
        }
    }

    private static final class Names extends ArrayList<String> {
        String title = "names";
    }

    private static final class Failure extends Exception {
        Failure() {
            super("failed");
        }
    }

    private record Pair(int left, Object right) implements Serializable {}

    private enum Colour {
        RED
    }

    public static void main(String[] arguments) throws IOException, ClassNotFoundException {
        boolean isWoven = false;
        for (Class<?> type : List.of(Base.class, Node.class, Names.class, Failure.class, Pair.class, Colour.class)) {
            System.out.println(ObjectStreamClass.lookup(type));
            isWoven |= Arrays.stream(type.getInterfaces())
                    .anyMatch(one -> one.getSimpleName().equals("Persistable"));
        }
        System.out.println("woven " + isWoven);
        Node node = new Node();
        node.next = new Node();
        for (Object object : List.of(node, new Pair(1, node), Colour.RED)) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
                out.writeObject(object);
            }
            System.out.println(HexFormat.of().formatHex(bytes.toByteArray()));
            try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
                System.out.println(in.readObject().getClass());
            }
        }
    }
}
