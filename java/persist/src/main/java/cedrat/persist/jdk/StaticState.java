package cedrat.persist.jdk;

import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/// The static methods of `java.base` that change static state: properties, defaults, factories, providers.
///
/// - The list is complete, and contains classes that inherit such a method. Otherwise changes would not be
///   rolled back, without an error.
public final class StaticState {
    private static final Set<String> OF_CONNECTIONS = Set.of(
            "setContentHandlerFactory",
            "setDefaultAllowUserInteraction",
            "setDefaultRequestProperty",
            "setDefaultUseCaches",
            "setFileNameMap");

    private static final Map<String, Set<String>> METHODS = Map.ofEntries(
            Map.entry("java/io/ObjectInputFilter$Config", Set.of("setSerialFilter", "setSerialFilterFactory")),
            Map.entry(
                    "java/lang/System",
                    Set.of("clearProperty", "setErr", "setIn", "setOut", "setProperties", "setProperty")),
            Map.entry("java/lang/Thread", Set.of("setDefaultUncaughtExceptionHandler")),
            Map.entry("java/lang/invoke/SwitchPoint", Set.of("invalidateAll")),
            Map.entry("java/net/Authenticator", Set.of("setDefault")),
            Map.entry("java/net/CookieHandler", Set.of("setDefault")),
            Map.entry("java/net/CookieManager", Set.of("setDefault")),
            Map.entry("java/net/DatagramSocket", Set.of("setDatagramSocketImplFactory")),
            Map.entry("java/net/HttpURLConnection", and(OF_CONNECTIONS, "setFollowRedirects")),
            Map.entry("java/net/JarURLConnection", OF_CONNECTIONS),
            Map.entry("java/net/MulticastSocket", Set.of("setDatagramSocketImplFactory")),
            Map.entry("java/net/ProxySelector", Set.of("setDefault")),
            Map.entry("java/net/ResponseCache", Set.of("setDefault")),
            Map.entry("java/net/ServerSocket", Set.of("setSocketFactory")),
            Map.entry("java/net/Socket", Set.of("setSocketImplFactory")),
            Map.entry("java/net/URL", Set.of("setURLStreamHandlerFactory")),
            Map.entry("java/net/URLConnection", OF_CONNECTIONS),
            Map.entry("java/security/Policy", Set.of("setPolicy")),
            Map.entry(
                    "java/security/Security",
                    Set.of("addProvider", "insertProviderAt", "removeProvider", "setProperty")),
            Map.entry("java/time/zone/ZoneRulesProvider", Set.of("registerProvider")),
            Map.entry("java/util/Locale", Set.of("setDefault")),
            Map.entry("java/util/SimpleTimeZone", Set.of("setDefault")),
            Map.entry("java/util/TimeZone", Set.of("setDefault")),
            Map.entry("java/util/concurrent/ForkJoinWorkerThread", Set.of("setDefaultUncaughtExceptionHandler")),
            Map.entry(
                    "javax/net/ssl/HttpsURLConnection",
                    and(
                            OF_CONNECTIONS,
                            "setDefaultHostnameVerifier",
                            "setDefaultSSLSocketFactory",
                            "setFollowRedirects")),
            Map.entry("javax/net/ssl/SSLContext", Set.of("setDefault")),
            Map.entry("javax/net/ssl/SSLServerSocket", Set.of("setSocketFactory")),
            Map.entry("javax/net/ssl/SSLSocket", Set.of("setSocketImplFactory")),
            Map.entry("javax/security/auth/login/Configuration", Set.of("setConfiguration")));

    private StaticState() {}

    private static Set<String> and(Set<String> names, String... others) {
        return Stream.concat(names.stream(), Stream.of(others)).collect(Collectors.toUnmodifiableSet());
    }

    /// Whether a call changes static state.
    public static boolean isChanged(String owner, String name) {
        return METHODS.getOrDefault(owner, Set.of()).contains(name);
    }

    /// All of them, by the internal names of their classes.
    static Map<String, Set<String>> methods() {
        return METHODS;
    }
}
