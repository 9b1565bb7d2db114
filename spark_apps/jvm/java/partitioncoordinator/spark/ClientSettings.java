package partitioncoordinator.spark;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.security.auth.login.LoginException;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * The settings of an executor's Kafka client. Users write librdkafka's names, because the coordinator and the agent use
 * librdkafka; Java's names are taken as well.
 *
 * <p>A wrong setting is an {@code IllegalArgumentException} with the text {@code BadSettings: ...}, which shows no secret.
 */
final class ClientSettings {
    private static final Map<String, Object> DEFAULTS = Map.of(
            "client.id", "assigned-kafka",
            "group.id", "assigned-kafka-reader", // the topic's group replaces this group
            "fetch.max.wait.ms", "10",
            "fetch.max.bytes", String.valueOf(8 << 20),
            "max.poll.records", "4000",
            "receive.buffer.bytes", "-1");

    private static final Map<String, Object> FIXED = Map.of(
            "key.deserializer", ByteArrayDeserializer.class,
            "value.deserializer", ByteArrayDeserializer.class,
            "enable.auto.commit", "false",
            "auto.offset.reset", "none", // a missing offset is never skipped silently
            "allow.auto.create.topics", "false");

    /** librdkafka's name → Java's. */
    private static final Map<String, String> RENAMED = Map.ofEntries(
            Map.entry("metadata.broker.list", "bootstrap.servers"),
            Map.entry("socket.timeout.ms", "request.timeout.ms"),
            Map.entry("socket.send.buffer.bytes", "send.buffer.bytes"),
            Map.entry("socket.receive.buffer.bytes", "receive.buffer.bytes"),
            Map.entry("fetch.wait.max.ms", "fetch.max.wait.ms"),
            Map.entry("fetch.message.max.bytes", "max.partition.fetch.bytes"),
            Map.entry("sasl.mechanisms", "sasl.mechanism"),
            Map.entry("sasl.oauthbearer.client.id", Login.CLIENT_ID),
            Map.entry("sasl.oauthbearer.client.secret", Login.CLIENT_SECRET),
            Map.entry("sasl.oauthbearer.assertion.jwt.template.file", "sasl.oauthbearer.assertion.template.file"));

    /** Settings without an effect on this reader, which joins no group, commits nothing and produces nothing. */
    private static final Set<String> IGNORED = words(
            // Tuning of librdkafka's queues, buffers, metadata and sockets.
            "queued.min.messages queued.max.messages.kbytes fetch.queue.backoff.ms fetch.error.backoff.ms",
            "message.max.bytes message.copy.max.bytes receive.message.max.bytes max.in.flight",
            "max.in.flight.requests.per.connection topic.metadata.refresh.interval.ms topic.blacklist",
            "topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.fast.cnt topic.metadata.refresh.sparse",
            "topic.metadata.propagation.max.ms socket.blocking.max.ms socket.keepalive.enable socket.nagle.disable",
            "socket.max.fails broker.address.ttl broker.address.family reconnect.backoff.jitter.ms",
            "api.version.request api.version.request.timeout.ms api.version.fallback.ms broker.version.fallback",
            "builtin.features enable.random.seed internal.termination.signal enabled_events",
            "consume.callback.max.messages share.acknowledgement.mode",
            // Logs and statistics.
            "debug log_level log.queue log.thread.name log.connection.close statistics.interval.ms",
            // Groups and commits.
            "group.instance.id group.protocol group.protocol.type group.remote.assignor session.timeout.ms",
            "heartbeat.interval.ms partition.assignment.strategy coordinator.query.interval.ms",
            "max.poll.interval.ms auto.commit.enable auto.commit.interval.ms enable.auto.offset.store",
            "enable.partition.eof offset.store.method offset.store.path offset.store.sync.interval.ms",
            // TLS and log-ins: settings that are parts of others, and the certificate store of Windows.
            "ssl.ca.certificate.stores ssl.engine.id",
            // Producers.
            "transactional.id transaction.timeout.ms enable.idempotence enable.gapless.guarantee linger.ms retries",
            "queue.buffering.max.messages queue.buffering.max.kbytes queue.buffering.max.ms message.send.max.retries",
            "queue.buffering.backpressure.threshold compression.codec compression.type compression.level batch.size",
            "batch.num.messages delivery.report.only.error sticky.partitioning.linger.ms request.required.acks acks",
            "message.timeout.ms delivery.timeout.ms queuing.strategy produce.offset.report partitioner");

    /** Settings that must not be ignored silently → why the reader cannot apply them. */
    private static final Map<String, String> REFUSED = Map.ofEntries(
            Map.entry("enable.ssl.certificate.verification", "the reader always checks the brokers' certificates"),
            Map.entry("ssl.curves.list", "set the system property jdk.tls.namedGroups for the executors"),
            Map.entry("ssl.sigalgs.list", "set the system property jdk.tls.client.SignatureSchemes for the executors"),
            Map.entry("ssl.crl.location", "the reader reads no revocation lists"),
            Map.entry("ssl.providers", "the reader does not use OpenSSL"),
            Map.entry("ssl.engine.location", "the reader does not use OpenSSL"),
            Map.entry("plugin.library.paths", "the reader does not use librdkafka"),
            Map.entry("interceptor.classes", "interceptors could break the offsets"),
            Map.entry("config.providers", "the file of kafkaSettingsFile holds secrets"),
            Map.entry("sasl.oauthbearer.metadata.authentication.type", "set sasl.oauthbearer.method=oidc"),
            Map.entry("sasl.oauthbearer.assertion.private.key.pem", "set sasl.oauthbearer.assertion.private.key.file"));

    /** Values with which a refused setting has no effect, so that it can be ignored. */
    private static final Map<String, String> HARMLESS = Map.of(
            "enable.ssl.certificate.verification", "true", "sasl.oauthbearer.metadata.authentication.type", "none");

    private static final String REQUEST = "request.timeout.ms";
    private static final String WAIT = "fetch.max.wait.ms";
    private static final ConfigDef JAVA = ConsumerConfig.configDef();

    private ClientSettings() {}

    /**
     * All settings of the executor's client. Later settings override earlier ones: defaults, settings of topic and
     * consumer ({@code kafka}), secret settings (see {@link SettingsFile}), the source's options, fixed settings.
     */
    static Map<String, Object> of(Map<String, String> kafka, String settingsFile, Map<String, String> options) {
        Map<String, String> given = merged(List.of(kafka, SettingsFile.load(settingsFile), options));
        Login.translate(given, true);
        Certificates.translate(given, true);
        return checked(given);
    }

    /**
     * Refuse wrong settings when a stream starts, on the driver. Does not read the file, which may exist only on
     * executors.
     */
    static void check(Map<String, String> kafka, Map<String, String> options) {
        Map<String, String> given = merged(List.of(kafka, options));
        Login.translate(given, false);
        Certificates.translate(given, false);
        checked(given);
    }

    /**
     * A client with these settings. {@code ReadFailed: ...} may pass by itself: no known broker name, or a failed
     * log-in.
     */
    static KafkaConsumer<byte[], byte[]> client(Map<String, Object> settings) {
        try {
            return withOwnLoader(() -> new KafkaConsumer<>(settings));
        } catch (KafkaException | IllegalArgumentException error) {
            String said = causes(error);
            if (said.contains("No resolvable bootstrap urls")) {
                throw new IllegalStateException("ReadFailed: the names of the brokers "
                        + settings.get("bootstrap.servers") + " cannot be resolved; check the executors' name service");
            }
            if (caused(error, LoginException.class)) {
                throw new IllegalStateException("ReadFailed: the executors cannot log in to Kafka: " + said);
            }
            throw unusable(said);
        }
    }

    /** Kafka's client loads the classes that settings name, and log-in modules, by the thread's class loader. */
    private static <T> T withOwnLoader(Supplier<T> made) {
        Thread thread = Thread.currentThread();
        ClassLoader before = thread.getContextClassLoader();
        thread.setContextClassLoader(KafkaConsumer.class.getClassLoader());
        try {
            return made.get();
        } finally {
            thread.setContextClassLoader(before);
        }
    }

    static IllegalArgumentException bad(String sentence) {
        return new IllegalArgumentException("BadSettings: " + sentence);
    }

    static IllegalArgumentException unusable(String problem) {
        return bad("the Kafka settings are not usable: " + problem + "; correct them");
    }

    /** The settings under Java's names where these exist, without ignored settings. A later layer overrides. */
    private static Map<String, String> merged(List<Map<String, String>> layers) {
        Map<String, String> found = new TreeMap<>();
        for (Map<String, String> layer : layers) {
            layer.forEach((name, value) -> found.put(RENAMED.getOrDefault(name, name), value));
            layer.keySet().stream()
                    .filter(name -> !RENAMED.containsKey(name))
                    .forEach(name -> found.put(name, layer.get(name)));
        }
        found.keySet().removeAll(IGNORED);
        REFUSED.forEach((name, reason) -> {
            String value = found.remove(name);
            if (value != null && !value.isBlank() && !value.strip().equalsIgnoreCase(HARMLESS.get(name))) {
                throw unusable(name + " is not supported: " + reason);
            }
        });
        return found;
    }

    private static Map<String, Object> checked(Map<String, String> given) {
        String unknown = given.keySet().stream()
                .filter(name -> !JAVA.names().contains(name))
                .collect(Collectors.joining(", "));
        if (!unknown.isEmpty()) {
            throw unusable("no setting of Kafka's clients is named " + unknown);
        }
        Map<String, Object> found = new HashMap<>(DEFAULTS);
        given.forEach((name, value) -> found.put(name, javaValue(name, value)));
        found.putAll(FIXED);
        try {
            Map<String, Object> parsed = withOwnLoader(() -> JAVA.parse(found));
            // As in librdkafka, the broker's waiting time adds to the time limit of a request.
            found.put(REQUEST, (int)
                    Math.min(Integer.MAX_VALUE, 0L + (Integer) parsed.get(REQUEST) + (Integer) parsed.get(WAIT)));
        } catch (ConfigException error) {
            throw unusable(error.getMessage());
        }
        return found;
    }

    private static String javaValue(String name, String written) {
        ConfigDef.Type type = JAVA.configKeys().get(name).type;
        if (type == ConfigDef.Type.PASSWORD) {
            return written;
        }
        String value = written.strip();
        if (type == ConfigDef.Type.BOOLEAN) {
            return switch (value.toLowerCase(Locale.ROOT)) {
                case "1", "t" -> "true";
                case "0", "f" -> "false";
                default -> value;
            };
        }
        return switch (name) {
            case "bootstrap.servers" ->
                Arrays.stream(value.split(","))
                        .map(String::strip)
                        .filter(address -> !address.isEmpty())
                        .map(address -> address.matches(".*:\\d+") ? address : address + ":9092")
                        .collect(Collectors.joining(","));
            // In librdkafka, 0 means the system's buffer size, or no limit for idle connections.
            case "send.buffer.bytes", "receive.buffer.bytes", "connections.max.idle.ms" ->
                value.equals("0") ? "-1" : value;
            case "security.protocol", "sasl.mechanism" -> value.toUpperCase(Locale.ROOT);
            case "isolation.level" -> value.toLowerCase(Locale.ROOT);
            default -> value;
        };
    }

    private static boolean caused(Throwable error, Class<?> kind) {
        return Stream.iterate(error, Objects::nonNull, Throwable::getCause).anyMatch(kind::isInstance);
    }

    private static String causes(Throwable error) {
        StringBuilder found = new StringBuilder();
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            String said = String.valueOf(cause.getMessage());
            if (found.indexOf(said) < 0) {
                found.append(found.isEmpty() ? "" : ": ").append(said);
            }
        }
        return found.indexOf("JAAS config") < 0
                ? found.toString()
                : "sasl.jaas.config has not the form of JAAS"; // the original text could show a part of the setting
    }

    private static Set<String> words(String... lines) {
        return Set.of(String.join(" ", lines).split(" "));
    }
}
