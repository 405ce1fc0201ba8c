package cedrat.persist.killed;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashSet;
import java.util.Set;
import java.util.UUID;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;

/// A transaction manager in a few lines: a file keeps the numbers of the global transactions that commit, 16
/// bytes each. What is prepared, and not in the file, rolls back.
///
/// **Threads:** any.
final class Coordinator {
    private static final int NUMBER_BYTES = 2 * Long.BYTES;

    private final FileChannel decisions;
    private final Set<UUID> committed = new HashSet<>();

    /// A branch of the global transaction `number`: a step of a thread's world, which has so many steps with
    /// it.
    record Id(UUID number, int thread, long steps) implements Xid {
        private static final int FORMAT = 0x6b696c6c;

        @Override
        public int getFormatId() {
            return FORMAT;
        }

        @Override
        public byte[] getGlobalTransactionId() {
            return bytes(number).array();
        }

        @Override
        public byte[] getBranchQualifier() {
            return ByteBuffer.allocate(Integer.BYTES + Long.BYTES)
                    .putInt(thread)
                    .putLong(steps)
                    .array();
        }

        static Id of(Xid xid) {
            ByteBuffer qualifier = ByteBuffer.wrap(xid.getBranchQualifier());
            UUID number = Coordinator.number(ByteBuffer.wrap(xid.getGlobalTransactionId()));
            return new Id(number, qualifier.getInt(), qualifier.getLong());
        }
    }

    private Coordinator(FileChannel decisions) {
        this.decisions = decisions;
    }

    static Coordinator open(Path file) throws IOException {
        FileChannel decisions =
                FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
        Coordinator coordinator = new Coordinator(decisions);
        // A number of which a part is missing was never decided on.
        long whole = decisions.size() / NUMBER_BYTES * NUMBER_BYTES;
        ByteBuffer numbers = ByteBuffer.allocate((int) whole);
        while (numbers.hasRemaining() && decisions.read(numbers, numbers.position()) >= 0) {}
        numbers.flip();
        while (numbers.hasRemaining()) {
            coordinator.committed.add(number(numbers));
        }
        decisions.truncate(whole);
        decisions.position(whole);
        return coordinator;
    }

    private static UUID number(ByteBuffer bytes) {
        return new UUID(bytes.getLong(), bytes.getLong());
    }

    private static ByteBuffer bytes(UUID number) {
        return ByteBuffer.allocate(NUMBER_BYTES)
                .putLong(number.getMostSignificantBits())
                .putLong(number.getLeastSignificantBits())
                .flip();
    }

    /// Writes down that a global transaction commits. What is written down survives.
    synchronized void commits(UUID number) throws IOException {
        ByteBuffer bytes = bytes(number);
        while (bytes.hasRemaining()) {
            decisions.write(bytes);
        }
        decisions.force(false);
        committed.add(number);
    }

    /// Tells a branch that is in doubt what was decided; returns whether it was committed.
    synchronized boolean end(XAResource resource, Id branch) throws XAException {
        boolean commits = committed.contains(branch.number());
        if (commits) {
            resource.commit(branch, false);
        } else {
            resource.rollback(branch);
        }
        return commits;
    }
}
