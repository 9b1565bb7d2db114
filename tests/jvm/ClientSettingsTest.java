package partitioncoordinator.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What an executor's Kafka client is given. */
class ClientSettingsTest {
    private static final Map<String, String> BROKERS = Map.of("bootstrap.servers", "127.0.0.1:1");

    private static Map<String, Object> settings(String... given) {
        return ClientSettings.of(BROKERS, "", map(given));
    }

    /** Settings, each written as {@code name=value}. */
    private static Map<String, String> map(String... given) {
        Map<String, String> found = new HashMap<>();
        for (String setting : given) {
            String[] pair = setting.split("=", 2);
            found.put(pair[0], pair[1]);
        }
        return found;
    }

    private static String refused(String... given) {
        var error = assertThrows(IllegalArgumentException.class, () -> ClientSettings.client(settings(given))
                .close());
        assertTrue(error.getMessage().startsWith("BadSettings: "), error.getMessage());
        assertFalse(error.getMessage().contains("hunter2"), error.getMessage());
        return error.getMessage();
    }

    @Test
    void theReadersOwnSettingsCannotBeChanged() {
        var found = settings("auto.offset.reset=earliest", "enable.auto.commit=true", "allow.auto.create.topics=true");
        assertEquals("none", found.get("auto.offset.reset"));
        assertEquals("false", found.get("enable.auto.commit"));
        assertEquals("false", found.get("allow.auto.create.topics"));
        assertEquals("assigned-kafka-reader", found.get("group.id"));
    }

    @Test
    void anOptionOverridesTheTopicUnderEitherName() {
        var kafka = map("metadata.broker.list=a:1", "fetch.wait.max.ms=7", "group.id=orders");
        var found = ClientSettings.of(kafka, "", map("bootstrap.servers=b:2", "fetch.max.wait.ms=8"));
        assertEquals("b:2", found.get("bootstrap.servers"));
        assertEquals("8", found.get("fetch.max.wait.ms"));
        assertEquals("orders", found.get("group.id"));
        assertEquals("8", settings("fetch.max.wait.ms=8", "fetch.wait.max.ms=7").get("fetch.max.wait.ms"));
    }

    @ParameterizedTest
    @CsvSource({
        "fetch.message.max.bytes, 7, max.partition.fetch.bytes, 7",
        "socket.receive.buffer.bytes, 0, receive.buffer.bytes, -1",
        "socket.send.buffer.bytes, 9, send.buffer.bytes, 9",
        "connections.max.idle.ms, 0, connections.max.idle.ms, -1",
        "check.crcs, 0, check.crcs, false",
        "enable.metrics.push, T, enable.metrics.push, true",
        "isolation.level, READ_COMMITTED, isolation.level, read_committed",
        "ssl.endpoint.identification.algorithm, none, ssl.endpoint.identification.algorithm, ''",
        "max.poll.records, 5, max.poll.records, 5",
        "bootstrap.servers, 'a, b:2,[::1],SSL://c:3', bootstrap.servers, 'a:9092,b:2,[::1]:9092,SSL://c:3'",
        "ssl.cipher.suites, TLS_AES_128_GCM_SHA256, ssl.cipher.suites, TLS_AES_128_GCM_SHA256",
        "sasl.oauthbearer.client.id, me, sasl.oauthbearer.client.credentials.client.id, me",
    })
    void aSettingOfLibrdkafkaIsOneOfJava(String name, String value, String javaName, String javaValue) {
        assertEquals(javaValue, settings(name + "=" + value).get(javaName));
    }

    @Test
    void aFetchHasTheBrokersWaitingTimeInAddition() {
        assertEquals(
                12_000,
                settings("socket.timeout.ms=5000", "fetch.wait.max.ms=7000").get("request.timeout.ms"));
    }

    @Test
    void ciphersOfOpensslAreThoseOfJava() {
        var found = settings("ssl.cipher.suites=ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305");
        assertEquals(
                "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256,"
                        + "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
                found.get("ssl.cipher.suites"));
        assertTrue(refused("ssl.cipher.suites=HIGH:!aNULL").contains("cipher HIGH of ssl.cipher.suites"));
    }

    @ParameterizedTest
    @CsvSource({
        "nonsense, 1, no setting of Kafka's clients is named nonsense",
        "fetch.min.bytes, many, Invalid value many for configuration fetch.min.bytes",
        "enable.ssl.certificate.verification, false, enable.ssl.certificate.verification is not supported",
        "ssl.crl.location, /x, the reader reads no revocation lists",
        "interceptor.classes, x, interceptors could break the offsets",
        "plugin.library.paths, x, plugin.library.paths is not supported",
        "bootstrap.servers, '127.0.0.1:99999', Invalid port in bootstrap.servers",
    })
    void aWrongSettingIsNamedWithWhatToDo(String name, String value, String says) {
        String said = refused(name + "=" + value);
        assertTrue(said.contains(says), said);
        assertTrue(said.startsWith("BadSettings: the Kafka settings are not usable: "), said);
        assertTrue(said.endsWith("; correct them"), said);
    }

    @Test
    void namesThatCannotBeResolvedNowAreNoWrongSetting() {
        var found = settings("bootstrap.servers=broker.invalid:9092");
        var error = assertThrows(IllegalStateException.class, () -> ClientSettings.client(found));
        assertEquals(
                "ReadFailed: the names of the brokers broker.invalid:9092 cannot be resolved; check the executors'"
                        + " name service",
                error.getMessage());
    }

    @Test
    void theDriverRefusesTheSameWithoutTheSecrets() {
        var login = map("security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", "ssl.ca.location=/on/executors");
        ClientSettings.check(BROKERS, login);
        for (var wrong : List.of(map("nonsense=1"), map("fetch.min.bytes=x"), map("ssl.crl.location=/x"))) {
            assertThrows(IllegalArgumentException.class, () -> ClientSettings.check(BROKERS, wrong));
        }
    }

    /** The list has a line for each setting of librdkafka, with its default: none is unknown to the reader. */
    @Test
    void eachSettingOfLibrdkafkaIsDecided() throws IOException {
        for (String line : Files.readAllLines(Path.of("tests/jvm/librdkafka-settings.txt"))) {
            String[] pair = line.split("=", 2);
            if (!pair[1].isEmpty() || !pair[0].equals("metadata.broker.list") && !pair[0].equals("bootstrap.servers")) {
                assertNotNull(settings(pair[0] + "=" + pair[1]), line);
            }
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"PLAIN", "SCRAM-SHA-256", "scram-sha-512"})
    void aLogInByPasswordWithoutOneIsRefusedAtOnce(String mechanism) {
        String said = refused("security.protocol=sasl_plaintext", "sasl.mechanism=" + mechanism, "sasl.username=alice");
        assertTrue(
                said.contains("asks for a log-in by " + mechanism.toUpperCase()
                        + ", and the executors have no sasl.password"),
                said);
        assertTrue(said.contains("kafkaSettingsFile, or set ASSIGNED_KAFKA_SETTINGS_FILE"), said);
    }

    @ParameterizedTest
    @CsvSource({
        "SSL,",
        "PLAINTEXT, PLAIN",
        "SASL_SSL,",
        "SASL_SSL, GSSAPI",
    })
    void otherLogInsNeedNoPassword(String protocol, String mechanism) {
        settings("security.protocol=" + protocol, "sasl.mechanisms=" + (mechanism == null ? "GSSAPI" : mechanism));
    }

    private static final String LOGIN = "org.apache.kafka.common.security.";

    @Test
    void aPasswordIsQuoted() {
        var found = settings(
                "security.protocol=SASL_PLAINTEXT",
                "sasl.mechanisms=plain",
                "sasl.username=a",
                "sasl.password=x\"; y\\\n");
        assertEquals(
                LOGIN + "plain.PlainLoginModule required \"password\"=\"x\\\"; y\\\\\\n\" \"username\"=\"a\";",
                found.get("sasl.jaas.config"));
        assertEquals("PLAIN", found.get("sasl.mechanism"));
        assertNull(found.get("sasl.password"));
        ClientSettings.client(found).close();
    }

    @Test
    void javasOwnLogInIsTaken() {
        String module = LOGIN + "plain.PlainLoginModule required username=a password=hunter2;";
        var found = settings("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.jaas.config=" + module);
        assertEquals(module, found.get("sasl.jaas.config"));
        ClientSettings.client(found).close();
        refused(
                "security.protocol=SASL_PLAINTEXT",
                "sasl.mechanism=PLAIN",
                "sasl.jaas.config=" + module.replace("=", " "));
    }

    @Test
    void kerberosTakesAKeytabOrTheTicketCache() {
        String module = "com.sun.security.auth.module.Krb5LoginModule required ";
        var found = settings(
                "security.protocol=SASL_SSL",
                "sasl.kerberos.keytab=/k",
                "sasl.kerberos.principal=me@X",
                "sasl.kerberos.kinit.cmd=kinit -k %{sasl.kerberos.principal}");
        assertEquals(
                module
                        + "\"doNotPrompt\"=\"true\" \"keyTab\"=\"/k\" \"principal\"=\"me@X\" \"storeKey\"=\"true\""
                        + " \"useKeyTab\"=\"true\";",
                found.get("sasl.jaas.config"));
        assertEquals("kafka", found.get("sasl.kerberos.service.name"));
        assertNull(found.get("sasl.kerberos.kinit.cmd"));
        var cached = settings("security.protocol=SASL_SSL", "sasl.kerberos.service.name=broker");
        assertEquals(module + "\"doNotPrompt\"=\"true\" \"useTicketCache\"=\"true\";", cached.get("sasl.jaas.config"));
        assertEquals("broker", cached.get("sasl.kerberos.service.name"));
    }

    @Test
    void aTokenComesFromAnEndpoint() {
        String url = "https://id.example/token";
        var found = settings(
                "security.protocol=SASL_SSL",
                "sasl.mechanism=OAUTHBEARER",
                "sasl.oauthbearer.method=oidc",
                "sasl.oauthbearer.client.id=me",
                "sasl.oauthbearer.client.secret=hunter2",
                "sasl.oauthbearer.scope=kafka",
                "sasl.oauthbearer.extensions=a=1,b=2",
                "sasl.oauthbearer.token.endpoint.url=" + url,
                "https.ca.pem=-----BEGIN CERTIFICATE-----\nx");
        assertEquals(
                LOGIN + "oauthbearer.OAuthBearerLoginModule required \"extension_a\"=\"1\" \"extension_b\"=\"2\""
                        + " \"ssl.truststore.certificates\"=\"-----BEGIN CERTIFICATE-----\\n"
                        + "x\" \"ssl.truststore.type\"=\"PEM\";",
                found.get("sasl.jaas.config"));
        assertEquals(
                LOGIN + "oauthbearer.OAuthBearerLoginCallbackHandler", found.get("sasl.login.callback.handler.class"));
        assertEquals("hunter2", found.get("sasl.oauthbearer.client.credentials.client.secret"));
        assertTrue(List.of(System.getProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls")
                        .split(","))
                .contains(url));
    }

    @Test
    void aTokenMayBeUnsecured() {
        String config = "principal=admin scope=role1,role2 lifeSeconds=600 extension_x=y";
        var found = settings(
                "security.protocol=SASL_PLAINTEXT",
                "sasl.mechanism=OAUTHBEARER",
                "enable.sasl.oauthbearer.unsecure.jwt=true",
                "sasl.oauthbearer.config=" + config);
        String said = (String) found.get("sasl.jaas.config");
        for (String part : List.of(
                "StringClaim_sub\"=\"admin",
                "ListClaim_scope\"=\",role1,role2",
                "LifetimeSeconds\"=\"600",
                "Extension_x\"=\"y")) {
            assertTrue(said.contains("\"unsecuredLogin" + part + "\""), said);
        }
        ClientSettings.client(found).close();
        assertTrue(refused("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=OAUTHBEARER")
                .contains("set sasl.oauthbearer.method=oidc"));
    }
}
