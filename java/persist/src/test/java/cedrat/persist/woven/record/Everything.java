package cedrat.persist.woven.record;

import java.util.Arrays;
import java.util.List;

/// An object with a field, a static field and an array of each type.
final class Everything {
    static boolean staticBoolean;
    static byte staticByte;
    static char staticChar;
    static short staticShort;
    static int staticInt;
    static long staticLong;
    static float staticFloat;
    static double staticDouble;
    static Object staticReference;

    private boolean aBoolean;
    private byte aByte;
    private char aChar;
    private short aShort;
    private int anInt;
    private volatile long aLong;
    private float aFloat;
    private double aDouble;
    private Object aReference;

    private final boolean[] booleans = new boolean[3];
    private final byte[] bytes = new byte[3];
    private final char[] chars = new char[3];
    private final short[] shorts = new short[3];
    private final int[] ints = new int[3];
    private final long[] longs = new long[3];
    private final float[] floats = new float[3];
    private final double[] doubles = new double[3];
    private final String[] references = new String[3];
    private final int[][] nested = new int[2][2];

    /// Gives everything a value that follows from `seed`, by each kind of store.
    void change(int seed) {
        changeStatics(seed);
        aBoolean = (seed & 1) == 1;
        aByte = (byte) seed;
        aChar = (char) seed;
        aShort = (short) seed;
        anInt += seed;
        aLong = seed * 0x1_0000_0001L;
        aFloat = seed / 3f;
        aDouble = seed / 7d;
        aReference = "text " + seed;
        for (int i = 0; i < 3; i++) {
            booleans[i] = (seed + i & 1) == 1;
            bytes[i] = (byte) (seed + i);
            chars[i] = (char) (seed + i);
            shorts[i] = (short) (seed + i);
            ints[i] += seed + i;
            longs[i] = seed + i << 40;
            floats[i] = (seed + i) / 3f;
            doubles[i] = (seed + i) / 7d;
            references[i] = "text " + (seed + i);
        }
        nested[1][1]++;
        nested[0] = new int[] {seed};
    }

    private static void changeStatics(int seed) {
        staticBoolean = (seed & 1) == 1;
        staticByte = (byte) seed;
        staticChar = (char) seed;
        staticShort = (short) seed;
        staticInt += seed;
        staticLong = seed * 0x1_0000_0001L;
        staticFloat = seed / 3f;
        staticDouble = seed / 7d;
        staticReference = "text " + seed;
    }

    /// All values as one text.
    String show() {
        List<Object> fields =
                Arrays.asList(aBoolean, aByte, (int) aChar, aShort, anInt, aLong, aFloat, aDouble, aReference);
        List<Object> statics = Arrays.asList(
                staticBoolean,
                staticByte,
                (int) staticChar,
                staticShort,
                staticInt,
                staticLong,
                staticFloat,
                staticDouble,
                staticReference);
        return fields + "\n" + statics + "\n" + Arrays.toString(booleans) + Arrays.toString(bytes)
                + Arrays.hashCode(chars) + Arrays.toString(shorts) + Arrays.toString(ints) + Arrays.toString(longs)
                + Arrays.toString(floats) + Arrays.toString(doubles) + Arrays.toString(references)
                + Arrays.deepToString(nested);
    }
}
