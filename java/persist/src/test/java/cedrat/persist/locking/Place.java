package cedrat.persist.locking;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/// A kind of place that a transaction reads and changes, each within objects of its own.
enum Place {
    REFERENCE {
        @Override
        int get(World world) {
            return world.box.number;
        }

        @Override
        void set(World world, int number) {
            world.box = new Box(number);
        }
    },
    PRIMITIVE {
        @Override
        int get(World world) {
            return world.number;
        }

        @Override
        void set(World world, int number) {
            world.number = number;
        }
    },
    OF_TWO_WORDS {
        @Override
        int get(World world) {
            return (int) world.big;
        }

        @Override
        void set(World world, int number) {
            world.big = number;
        }
    },
    ELEMENT {
        @Override
        int get(World world) {
            return world.numbers[1];
        }

        @Override
        void set(World world, int number) {
            world.numbers[1] = number;
        }
    },
    REFERENCE_IN_AN_ARRAY {
        @Override
        int get(World world) {
            return (Integer) world.boxes[1];
        }

        @Override
        void set(World world, int number) {
            world.boxes[1] = number;
        }
    },
    LIST {
        @Override
        int get(World world) {
            return world.list.get(1);
        }

        @Override
        void set(World world, int number) {
            world.list.set(1, number);
        }
    },
    MAP {
        @Override
        int get(World world) {
            return world.map.get("key");
        }

        @Override
        void set(World world, int number) {
            world.map.put("key", number);
        }
    },
    /// Which may not be there, which is read too.
    KEY {
        @Override
        int get(World world) {
            return world.map.containsKey("other") ? 1 : 0;
        }

        @Override
        void set(World world, int number) {
            if (number == 0) {
                world.map.remove("other");
            } else {
                world.map.put("other", number);
            }
        }
    },
    IN_A_COLLECTION {
        @Override
        int get(World world) {
            return world.accounts.get(0).balance;
        }

        @Override
        void set(World world, int number) {
            world.accounts.get(0).balance = number;
        }
    };

    static final class World {
        Box box = new Box(0);
        int number;
        long big;
        int[] numbers = new int[2];
        Object[] boxes = {0, 0};
        List<Integer> list = new ArrayList<>(List.of(0, 0));
        Map<String, Integer> map = new HashMap<>(Map.of("key", 0));
        List<Account> accounts = new ArrayList<>(List.of(new Account()));
    }

    static final class Box {
        final int number;

        Box(int number) {
            this.number = number;
        }
    }

    static final class Account {
        int balance;
    }

    abstract int get(World world);

    abstract void set(World world, int number);
}
