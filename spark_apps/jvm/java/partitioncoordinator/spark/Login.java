package partitioncoordinator.spark;

import static partitioncoordinator.spark.ClientSettings.bad;
import static partitioncoordinator.spark.ClientSettings.unusable;

import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** SASL: converts librdkafka's log-in settings to Java's {@code sasl.jaas.config} and the settings beside it. */
final class Login {
    static final String CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id";
    static final String CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret";

    private static final String JAAS = "sasl.jaas.config";
    private static final String KINIT = "sasl.kerberos.kinit.cmd";
    private static final String MODULES = "org.apache.kafka.common.security.";
    private static final String OAUTH = MODULES + "oauthbearer.";
    private static final String ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.";

    /** librdkafka's settings whose names Java's client does not know. */
    private static final Set<String> ONLY_LIBRDKAFKA = Set.of(
            "sasl.username",
            "sasl.password",
            "sasl.kerberos.principal",
            "sasl.kerberos.keytab",
            "enable.sasl.oauthbearer.unsecure.jwt",
            "sasl.oauthbearer.config",
            "sasl.oauthbearer.method",
            "sasl.oauthbearer.extensions",
            "sasl.oauthbearer.grant.type",
            "https.ca.location",
            "https.ca.pem");

    private Login() {}

    /** Replace the settings in place. On the driver ({@code complete} is false) the secret ones are absent. */
    static void translate(Map<String, String> given, boolean complete) {
        String mechanism =
                given.getOrDefault("sasl.mechanism", "GSSAPI").strip().toUpperCase(Locale.ROOT);
        String protocol = given.getOrDefault("security.protocol", "").toUpperCase(Locale.ROOT);
        Map<String, String> own = new TreeMap<>(given);
        given.keySet().removeAll(ONLY_LIBRDKAFKA);
        if (own.getOrDefault(KINIT, "").contains(" ")) {
            given.remove(KINIT); // a command line in librdkafka, a path in Java
        }
        if (!complete || !protocol.strip().startsWith("SASL") || given.containsKey(JAAS)) {
            return;
        }
        switch (mechanism) {
            case "PLAIN" -> given.put(JAAS, byPassword(mechanism, "plain.PlainLoginModule", own));
            case "SCRAM-SHA-256", "SCRAM-SHA-512" ->
                given.put(JAAS, byPassword(mechanism, "scram.ScramLoginModule", own));
            case "GSSAPI" -> {
                given.put(JAAS, byKerberos(own));
                given.putIfAbsent("sasl.kerberos.service.name", "kafka");
            }
            case "OAUTHBEARER" -> byToken(own, given);
            default -> {
                // The JVM's own JAAS file names the module.
            }
        }
    }

    private static String byPassword(String mechanism, String module, Map<String, String> own) {
        String password = own.getOrDefault("sasl.password", "");
        if (password.isEmpty()) {
            throw bad(
                    "Kafka asks for a log-in by %s, and the executors have no sasl.password: name a file with it by the option kafkaSettingsFile, or set %s or %s for them"
                            .formatted(mechanism, SettingsFile.FILE_VARIABLE, SettingsFile.SECRET_VARIABLE));
        }
        return jaas(MODULES + module, Map.of("username", own.getOrDefault("sasl.username", ""), "password", password));
    }

    private static String byKerberos(Map<String, String> own) {
        Map<String, String> options = new TreeMap<>(Map.of("doNotPrompt", "true"));
        String keytab = own.getOrDefault("sasl.kerberos.keytab", "");
        String principal = own.get("sasl.kerberos.principal");
        if (!keytab.isEmpty()) {
            options.putAll(Map.of("useKeyTab", "true", "storeKey", "true", "keyTab", keytab));
            options.put("principal", principal == null ? "kafkaclient" : principal);
        } else {
            options.put("useTicketCache", "true");
            if (principal != null) {
                options.put("principal", principal);
            }
        }
        return jaas("com.sun.security.auth.module.Krb5LoginModule", options);
    }

    private static void byToken(Map<String, String> own, Map<String, String> given) {
        Map<String, String> options = new TreeMap<>();
        if (own.getOrDefault("sasl.oauthbearer.method", "").equalsIgnoreCase("oidc")) {
            given.put("sasl.login.callback.handler.class", OAUTH + "OAuthBearerLoginCallbackHandler");
            given.putIfAbsent(
                    "sasl.oauthbearer.jwt.validator.class", OAUTH + "ClientJwtValidator"); // the default needs jose4j
            if (own.getOrDefault("sasl.oauthbearer.grant.type", "").endsWith("jwt-bearer")) {
                given.put("sasl.oauthbearer.jwt.retriever.class", OAUTH + "JwtBearerJwtRetriever");
            }
            pairs(own.getOrDefault("sasl.oauthbearer.extensions", ""), ",")
                    .forEach((name, value) -> options.put("extension_" + name, value));
            String authorities = Certificates.authorities(own, "https.ca.");
            if (!authorities.isEmpty()) {
                options.putAll(Map.of("ssl.truststore.type", "PEM", "ssl.truststore.certificates", authorities));
            }
            allow("urls", own.get("sasl.oauthbearer.token.endpoint.url"));
            for (String name : given.keySet()) {
                if (name.startsWith("sasl.oauthbearer.assertion.") && name.endsWith(".file")) {
                    allow("files", given.get(name));
                }
            }
        } else if (own.getOrDefault("enable.sasl.oauthbearer.unsecure.jwt", "").matches("(?i)true|t|1")) {
            unsecured(pairs(own.getOrDefault("sasl.oauthbearer.config", ""), " "), options);
        } else if (!own.containsKey("sasl.login.callback.handler.class")) {
            throw unusable("nothing gives a token to the log-in by OAUTHBEARER, set sasl.oauthbearer.method=oidc");
        }
        given.put(JAAS, jaas(OAUTH + "OAuthBearerLoginModule", options));
    }

    /** A token without a signature, from {@code principal=… scope=a,b lifeSeconds=… extension_name=…}. */
    private static void unsecured(Map<String, String> config, Map<String, String> options) {
        String claim = config.getOrDefault("principalClaimName", "sub");
        String scope = config.getOrDefault("scopeClaimName", "scope");
        options.put("unsecuredLoginPrincipalClaimName", claim);
        options.put("unsecuredLoginScopeClaimName", scope);
        options.put("unsecuredLoginStringClaim_" + claim, config.getOrDefault("principal", ""));
        config.forEach((name, value) -> {
            if (name.equals("scope")) {
                options.put("unsecuredLoginListClaim_" + scope, "," + value);
            } else if (name.equals("lifeSeconds")) {
                options.put("unsecuredLoginLifetimeSeconds", value);
            } else if (name.startsWith("extension_")) {
                options.put("unsecuredLoginExtension_" + name.substring("extension_".length()), value);
            }
        });
    }

    private static Map<String, String> pairs(String text, String separator) {
        Map<String, String> found = new TreeMap<>();
        for (String pair : text.split(separator)) {
            int equals = pair.indexOf('=');
            if (equals > 0) {
                found.put(
                        pair.substring(0, equals).strip(),
                        pair.substring(equals + 1).strip());
            }
        }
        return found;
    }

    /** Allow this resource: Kafka's client reads tokens only from allowed addresses and files. */
    private static synchronized void allow(String kind, String resource) {
        if (resource != null) {
            Set<String> all = new TreeSet<>(
                    Arrays.asList(System.getProperty(ALLOWED + kind, "").split(",")));
            all.add(resource.strip());
            System.setProperty(ALLOWED + kind, String.join(",", all));
        }
    }

    private static String jaas(String module, Map<String, String> options) {
        Stream<String> words = new TreeMap<>(options)
                .entrySet().stream().map(option -> quoted(option.getKey()) + "=" + quoted(option.getValue()));
        return module + " required " + words.collect(Collectors.joining(" ")) + ";";
    }

    private static String quoted(String text) {
        String escaped = text.replace("\\", "\\\\")
                .replace("\"", "\\\"")
                .replace("\n", "\\n")
                .replace("\r", "\\r");
        return '"' + escaped + '"';
    }
}
