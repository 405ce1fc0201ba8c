package cedrat.oracle.log;

import java.security.SecureRandom;
import java.util.Arrays;

/// Draws identities and generations of oracles.
public final class Identities {
    private static final SecureRandom RANDOM = new SecureRandom();

    private Identities() {}

    /// Returns a number other than 0 that no other oracle, and no other generation, has.
    public static long draw() {
        long drawn;
        do {
            drawn = RANDOM.nextLong();
        } while (drawn == 0);
        return drawn;
    }

    /// Returns the first entry of the log of an oracle with this identity.
    public static byte[] firstEntry(long identity) {
        EntryWriter entry = new EntryWriter();
        entry.begin(0);
        entry.identified(identity);
        entry.close(0);
        return Arrays.copyOf(entry.bytes(), entry.length());
    }
}
