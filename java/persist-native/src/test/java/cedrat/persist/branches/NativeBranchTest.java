package cedrat.persist.branches;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import cedrat.persist.Heap;
import cedrat.persist.InDoubtException;
import cedrat.persist.Records;
import cedrat.persist.Store;
import cedrat.persist.StoreException;
import cedrat.persist.StoreOptions;
import cedrat.persist.Transaction;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/// J11: branches of transactions over several stores, in a folder.
class NativeBranchTest {
    private record Id(byte[] global, byte[] branch) implements Xid {
        @Override
        public int getFormatId() {
            return 7;
        }

        @Override
        public byte[] getGlobalTransactionId() {
            return global.clone();
        }

        @Override
        public byte[] getBranchQualifier() {
            return branch.clone();
        }
    }

    private static final class Account {
        long balance = 100;
        Account friend;
    }

    /// As long as they may be.
    private static final Id ID = new Id(new byte[Xid.MAXGTRIDSIZE], new byte[Xid.MAXBQUALSIZE]);

    @TempDir
    Path folder;

    private Store store;
    private XAResource resource;

    @BeforeEach
    void open() {
        store = Store.open(folder, new StoreOptions());
        resource = store.xaResource();
        if (store.isNew()) {
            store.setRoot("account", new Account());
            store.setRoot("other", new Account());
        }
    }

    @AfterEach
    void close() {
        store.close();
    }

    private Account account() {
        return store.root("account", Object.class);
    }

    /// Changes an object, makes another one, and gives it a name.
    private void prepare() throws XAException {
        resource.start(ID, XAResource.TMNOFLAGS);
        Transaction.run(() -> {
            account().balance -= 30;
            account().friend = new Account();
            store.setRoot("friend", account().friend);
        });
        resource.end(ID, XAResource.TMSUCCESS);
        assertEquals(XAResource.XA_OK, resource.prepare(ID));
    }

    /// The store is opened anew, with one branch in doubt.
    private Xid inDoubt() throws XAException {
        close();
        open();
        Xid[] found = resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN);
        assertEquals(1, found.length);
        assertEquals(7, found[0].getFormatId());
        assertArrayEquals(ID.global, found[0].getGlobalTransactionId());
        assertArrayEquals(ID.branch, found[0].getBranchQualifier());
        assertThrows(InDoubtException.class, this::account);
        assertThrows(InDoubtException.class, () -> store.root("friend", Object.class));
        Transaction.run(() -> store.root("other", Account.class).balance++);
        return found[0];
    }

    private void assertIs(long balance, boolean hasFriend) throws XAException {
        assertEquals(0, resource.recover(XAResource.TMSTARTRSCAN).length);
        assertEquals(balance, account().balance);
        assertEquals(store.root("friend", Account.class), account().friend);
        if (hasFriend) {
            assertEquals(100, account().friend.balance);
        } else {
            assertNull(account().friend);
        }
    }

    /// J11, J11.1.
    @Test
    void preparedBranchCommitsInLaterOpening() throws XAException {
        prepare();
        inDoubt(); // as often as one likes
        Xid found = inDoubt();
        resource.commit(found, false);
        assertIs(70, true);
        Transaction.run(() -> account().balance++);
        close();
        open();
        assertIs(71, true);
        assertEquals(102, store.root("other", Account.class).balance);
    }

    /// J11.9b: by the command `cedrat resolve`.
    @Test
    void operatorsOutcomeIsReportedUntilForgotten() throws Exception {
        for (boolean commits : new boolean[] {false, true}) {
            prepare();
            close();
            resolve(commits ? "commit" : "rollback");
            for (int opening = 0; opening < 2; opening++) {
                open();
                assertEquals(commits ? 70 : 100, account().balance);
                Xid[] known = resource.recover(XAResource.TMSTARTRSCAN);
                assertEquals(1, known.length);
                int outcome = commits ? XAException.XA_HEURCOM : XAException.XA_HEURRB;
                for (Executable late : List.<Executable>of(
                        () -> resource.commit(known[0], false), () -> resource.rollback(known[0]))) {
                    assertEquals(outcome, assertThrows(XAException.class, late).errorCode, "J11.9b");
                }
                close();
            }
            open();
            resource.forget(ID);
            assertIs(commits ? 70 : 100, commits);
            close();
            open();
            assertIs(commits ? 70 : 100, commits);
        }
    }

    private void resolve(String outcome) throws Exception {
        Path command =
                Path.of(System.getProperty("cedrat.library")).toAbsolutePath().resolveSibling("cedrat");
        byte[] name = new byte[5 + Xid.MAXGTRIDSIZE + Xid.MAXBQUALSIZE];
        name[3] = 7;
        name[4] = Xid.MAXGTRIDSIZE;
        Process process = new ProcessBuilder(
                        command.toString(),
                        "resolve",
                        folder.toString(),
                        HexFormat.of().formatHex(name),
                        outcome)
                .redirectErrorStream(true)
                .start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), output);
    }

    /// J11.
    @Test
    void preparedBranchRollsBackInLaterOpening() throws XAException {
        prepare();
        Xid found = inDoubt();
        resource.rollback(found);
        assertIs(100, false);
        Transaction.run(() -> account().balance++);
        close();
        open();
        assertIs(101, false);
    }

    /// J11.
    @Test
    void outcomeArrivesInTheSameOpening() throws XAException {
        prepare();
        resource.rollback(ID);
        assertIs(100, false);
        prepare();
        resource.commit(ID, false);
        assertIs(70, true);
        close();
        open();
        assertIs(70, true);
    }

    /// J11.
    /// Garbage collection keeps an object that a branch in doubt has made and that only the branch refers to.
    @Test
    void aCollectionLeavesWhatABranchNeeds() throws XAException {
        prepare();
        Xid found = inDoubt();
        assertEquals(0, store.collect());
        resource.commit(found, false);
        assertIs(70, true);
    }

    /// J11.6.
    @Test
    void pagesAndHeapsTakeNoPart() throws XAException {
        Records records = store.records("records");
        Heap heap = store.heap("heap", 1 << 20);
        resource.start(ID, XAResource.TMNOFLAGS);
        assertThrows(StoreException.class, () -> Transaction.run(() -> records.insert(new byte[8])));
        assertThrows(StoreException.class, () -> Transaction.run(() -> heap.allocate(8)));
        Transaction.run(() -> account().balance -= 30);
        resource.end(ID, XAResource.TMSUCCESS);
        Transaction.run(() -> records.insert(new byte[8]));
        resource.prepare(ID);
        resource.commit(ID, false);
        assertEquals(70, account().balance);
    }
}
