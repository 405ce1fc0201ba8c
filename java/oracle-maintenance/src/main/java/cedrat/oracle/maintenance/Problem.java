package cedrat.oracle.maintenance;

import cedrat.oracle.client.ClientClosedException;
import cedrat.oracle.client.OracleException;
import cedrat.oracle.client.RefusedException;
import cedrat.oracle.client.UnavailableException;
import cedrat.oracle.protocol.ErrorCode;
import cedrat.oracle.tables.TableException;
import java.io.UncheckedIOException;
import java.util.Locale;

/// Reason why a pass has failed.
///
/// @param message what has failed and why, and for a refusal what to do
/// @param failure what was thrown
record Problem(Kind kind, String message, RuntimeException failure) {
    /// Kinds of reasons.
    enum Kind {
        /// The oracle does not answer; it is tried again until it does.
        ORACLE,
        /// The store of the tables does not answer; the same.
        TABLES,
        /// The oracle, or a table, refuses it until an administrator changes something.
        REFUSAL,
        /// A bug.
        FAULT;

        @Override
        public String toString() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    /// Returns the reason of a failure.
    static Problem of(RuntimeException failure, Store.Opener opener) {
        return switch (failure) {
            case UnavailableException unavailable -> new Problem(Kind.ORACLE, unavailable.getMessage(), failure);
            case ClientClosedException closed
            when closed.code() == null -> new Problem(Kind.ORACLE, closed.getMessage(), failure);
            case ClientClosedException closed -> refusal(closed.code(), closed);
            case RefusedException refused -> refusal(refused.code(), refused);
            case TableException tables
            when opener.isRefusal(tables) -> new Problem(Kind.REFUSAL, tables.getMessage(), failure);
            case TableException tables -> new Problem(Kind.TABLES, tables.getMessage(), failure);
            case UncheckedIOException file -> new Problem(Kind.REFUSAL, file.getMessage(), failure);
            default -> new Problem(Kind.FAULT, failure.toString(), failure);
        };
    }

    private static Problem refusal(ErrorCode code, OracleException why) {
        String action =
                switch (code) {
                    case FORBIDDEN ->
                        ": give the name in the certificate, token or ticket of this command the role `cleaner` in the file "
                                + "that `cedrat-oracle serve --roles` names";
                    case OTHER_ORACLE ->
                        ": --oracle names another oracle than at the start of this command: find out why; the tables "
                                + "are left alone";
                    case RESTORED -> ": this command goes on with what the restored oracle knows";
                    case NAMESPACES -> ": retire namespaces whose tables are dropped (`cedrat-oracle retire`)";
                    case VERSION, UNSUPPORTED -> ": use the same version of this command and of the server";
                    case null, default -> "";
                };
        return new Problem(Kind.REFUSAL, why.getMessage() + action, why);
    }

    /// Returns the message, and what happens next.
    String description() {
        return switch (kind) {
            case ORACLE -> "the oracle does not answer, and is tried until it does: " + message;
            case TABLES -> "the store of the tables does not answer, and is tried until it does: " + message;
            case REFUSAL -> "refused until this is mended: " + message;
            case FAULT -> "unexpected failure; please report it: " + message;
        };
    }

    /// Whether it is the same one: its numbers may differ from try to try.
    boolean isLike(Problem other) {
        return kind == other.kind
                && (kind == Kind.ORACLE
                        || kind == Kind.TABLES
                        || withoutNumbers(message).equals(withoutNumbers(other.message)));
    }

    private static String withoutNumbers(String text) {
        return text.replaceAll("\\d+", "#");
    }
}
