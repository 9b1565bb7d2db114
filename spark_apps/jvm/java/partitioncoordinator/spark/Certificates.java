package partitioncoordinator.spark;

import static partitioncoordinator.spark.ClientSettings.unusable;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** TLS: converts librdkafka's settings of certificates, keys and ciphers to those of Java's client. */
final class Certificates {
    /** librdkafka's settings whose names Java's client does not know. */
    private static final Set<String> ONLY_LIBRDKAFKA = Set.of(
            "ssl.ca.location",
            "ssl.ca.pem",
            "ssl.certificate.location",
            "ssl.certificate.pem",
            "ssl.key.location",
            "ssl.key.pem");

    private static final String IDENTIFICATION = "ssl.endpoint.identification.algorithm";
    private static final String CIPHERS = "ssl.cipher.suites";

    /** Files in which systems keep their trusted authorities. librdkafka looks there too. */
    private static final List<String> SYSTEM = List.of(
            "/etc/ssl/certs/ca-certificates.crt",
            "/etc/pki/tls/certs/ca-bundle.crt",
            "/etc/ssl/ca-bundle.pem",
            "/etc/ssl/cert.pem");

    /** The name of a file in a folder that {@code openssl rehash} has prepared. */
    private static final Pattern HASHED = Pattern.compile("[0-9a-f]{8}\\.\\d+");

    private static final Pattern OPENSSL_CIPHER =
            Pattern.compile("(ECDHE|DHE)-(RSA|ECDSA)-(AES128-GCM-SHA256|AES256-GCM-SHA384|CHACHA20-POLY1305)");

    private static final List<String> TLS_1_3 =
            List.of("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256");

    private Certificates() {}

    /** Replace the settings in place. On the driver ({@code complete} is false) no file is read. */
    static void translate(Map<String, String> given, boolean complete) {
        Map<String, String> own = new TreeMap<>(given);
        given.keySet().removeAll(ONLY_LIBRDKAFKA);
        given.computeIfPresent(IDENTIFICATION, (name, value) -> value.equalsIgnoreCase("none") ? "" : value);
        given.computeIfPresent(CIPHERS, (name, value) -> ciphers(value));
        String protocol = own.getOrDefault("security.protocol", "").strip().toUpperCase(Locale.ROOT);
        if (!complete || !protocol.endsWith("SSL")) {
            return;
        }
        if (given.keySet().stream().noneMatch(name -> name.startsWith("ssl.truststore."))) {
            String authorities = authorities(own, "ssl.ca.");
            if (!authorities.isEmpty()) {
                given.putAll(Map.of("ssl.truststore.type", "PEM", "ssl.truststore.certificates", authorities));
            }
        }
        String certificate = text(own, "ssl.certificate.");
        String key = text(own, "ssl.key.");
        if (certificate.isEmpty() != key.isEmpty()) {
            throw unusable("ssl.certificate.location and ssl.key.location are given together or not at all");
        }
        if (!key.isEmpty()) {
            given.put("ssl.keystore.type", "PEM");
            given.put("ssl.keystore.certificate.chain", certificate);
            given.put("ssl.keystore.key", PemKey.pkcs8(key, own.getOrDefault("ssl.key.password", "")));
            given.remove("ssl.key.password");
        }
    }

    /** The trusted certificates of the settings, else of the system; empty means the certificates of the JVM. */
    static String authorities(Map<String, String> own, String prefix) {
        String location = own.getOrDefault(prefix + "location", "");
        if (!location.isEmpty() && !location.equals("probe") && Files.isDirectory(Path.of(location))) {
            try (Stream<Path> files = Files.list(Path.of(location))) {
                String found = files.filter(file ->
                                HASHED.matcher(file.getFileName().toString()).matches())
                        .sorted()
                        .map(file -> read(prefix + "location", file.toString()))
                        .collect(Collectors.joining("\n"));
                if (found.isEmpty()) {
                    throw unusable("the folder " + location + " of " + prefix
                            + "location has no certificates that openssl rehash prepared");
                }
                return found;
            } catch (IOException error) {
                throw unreadable(prefix + "location", location, error);
            }
        }
        Map<String, String> named = new TreeMap<>(own);
        named.remove(prefix + "location", "probe");
        String found = text(named, prefix);
        if (!found.isEmpty()) {
            return found;
        }
        return SYSTEM.stream()
                .filter(file -> Files.isReadable(Path.of(file)))
                .findFirst()
                .map(file -> read(prefix + "location", file))
                .orElse("");
    }

    /** The content of the file {@code location}, followed by the setting {@code pem}. */
    private static String text(Map<String, String> own, String prefix) {
        String location = own.getOrDefault(prefix + "location", "");
        String file = location.isEmpty() ? "" : read(prefix + "location", location);
        String pem = own.getOrDefault(prefix + "pem", "");
        return file.isEmpty() || pem.isEmpty() ? file + pem : file + "\n" + pem;
    }

    private static String read(String setting, String location) {
        try {
            return Files.readString(
                    Path.of(location), StandardCharsets.ISO_8859_1) /* comments may be in any encoding */;
        } catch (IOException error) {
            throw unreadable(setting, location, error);
        }
    }

    private static IllegalArgumentException unreadable(String setting, String location, IOException error) {
        return unusable("%s %s cannot be read (%s)"
                .formatted(setting, location, error.getClass().getSimpleName()));
    }

    /** The permitted ciphers by Java's names. OpenSSL's list does not cover TLS 1.3, whose ciphers stay permitted. */
    private static String ciphers(String list) {
        String[] names = list.strip().split("[:, ]+");
        if (list.isBlank() || Arrays.stream(names).allMatch(name -> name.startsWith("TLS_"))) {
            return list;
        }
        return Stream.concat(TLS_1_3.stream(), Arrays.stream(names).map(Certificates::cipher))
                .distinct()
                .collect(Collectors.joining(","));
    }

    private static String cipher(String name) {
        Matcher found = OPENSSL_CIPHER.matcher(name);
        if (name.startsWith("TLS_")) {
            return name;
        }
        if (!found.matches()) {
            throw unusable("the cipher " + name
                    + " of ssl.cipher.suites has no counterpart in Java; name Java's ciphers (TLS_...)");
        }
        String cipher =
                switch (found.group(3)) {
                    case "AES128-GCM-SHA256" -> "AES_128_GCM_SHA256";
                    case "AES256-GCM-SHA384" -> "AES_256_GCM_SHA384";
                    default -> "CHACHA20_POLY1305_SHA256";
                };
        return "TLS_" + found.group(1) + "_" + found.group(2) + "_WITH_" + cipher;
    }
}
