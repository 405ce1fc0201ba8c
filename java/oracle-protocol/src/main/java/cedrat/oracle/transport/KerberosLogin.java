package cedrat.oracle.transport;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.PrivilegedActionException;
import java.security.PrivilegedExceptionAction;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import javax.security.auth.Subject;
import javax.security.auth.kerberos.KerberosPrincipal;
import javax.security.auth.kerberos.KeyTab;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.AppConfigurationEntry.LoginModuleControlFlag;
import javax.security.auth.login.Configuration;
import javax.security.auth.login.LoginContext;
import javax.security.auth.login.LoginException;

/// Kerberos credentials of this process, through the JDK's login module. **Threads:** any may call.
public final class KerberosLogin implements AutoCloseable {
    private static final String MODULE = "com.sun.security.auth.module.Krb5LoginModule";

    private final LoginContext context;

    private KerberosLogin(LoginContext context) {
        this.context = context;
    }

    /// Gets a ticket for a client: with a key of this file, or that of the ticket cache if both are `null`. Asks the
    /// key distribution centre, and waits for it.
    ///
    /// @throws IOException if there is no ticket
    public static KerberosLogin client(String principal, Path keytab) throws IOException {
        Map<String, String> options = options(true);
        if (principal == null) {
            options.put("useTicketCache", "true");
            return login(options, "the ticket cache: run kinit");
        }
        useKeytab(options, principal, keytab);
        return login(options, "the key of " + principal + " in " + keytab);
    }

    /// Takes the keys of a server. They are read again when the file has changed.
    ///
    /// @throws IOException if the file has none
    public static KerberosLogin server(String principal, Path keytab) throws IOException {
        if (!Files.isReadable(keytab)) {
            throw new IOException("cannot read the keytab " + keytab);
        }
        Map<String, String> options = options(false);
        useKeytab(options, principal, keytab);
        options.put("storeKey", "true");
        KerberosLogin login = login(options, "the keys of " + principal + " in " + keytab);
        KerberosPrincipal name = new KerberosPrincipal(principal);
        if (KeyTab.getInstance(name, keytab.toFile()).getKeys(name).length == 0) {
            throw new IOException("the keytab " + keytab + " has no key of " + name
                    + ": name one with --kerberos-principal" + " that it has");
        }
        return login;
    }

    private static Map<String, String> options(boolean isClient) {
        Map<String, String> options = new HashMap<>();
        options.put("doNotPrompt", "true");
        options.put("isInitiator", Boolean.toString(isClient));
        return options;
    }

    private static void useKeytab(Map<String, String> options, String principal, Path keytab) throws IOException {
        if (!Files.isReadable(keytab)) {
            throw new IOException("cannot read the keytab " + keytab);
        }
        options.put("useKeyTab", "true");
        options.put("keyTab", keytab.toAbsolutePath().toString());
        options.put("principal", principal);
    }

    private static KerberosLogin login(Map<String, String> options, String source) throws IOException {
        AppConfigurationEntry[] entries = {new AppConfigurationEntry(MODULE, LoginModuleControlFlag.REQUIRED, options)};
        Configuration configuration = new Configuration() {
            @Override
            public AppConfigurationEntry[] getAppConfigurationEntry(String name) {
                return entries;
            }
        };
        try {
            LoginContext context = new LoginContext("cedrat", new Subject(), null, configuration);
            context.login();
            return new KerberosLogin(context);
        } catch (LoginException problem) {
            throw new IOException("Kerberos does not accept " + source + ": " + problem.getMessage(), problem);
        }
    }

    /// Does something with these credentials.
    ///
    /// @throws Exception what `action` has thrown
    public <T> T call(Callable<T> action) throws Exception {
        try {
            // The one call that Java 11 has; later it is another name of `Subject.callAs`.
            return Subject.doAs(context.getSubject(), (PrivilegedExceptionAction<T>) action::call);
        } catch (PrivilegedActionException failed) {
            throw failed.getException();
        }
    }

    /// Forgets the credentials.
    @Override
    public void close() {
        try {
            context.logout();
        } catch (LoginException impossible) {
            throw new IllegalStateException("credentials of Kerberos cannot be forgotten", impossible);
        }
    }
}
