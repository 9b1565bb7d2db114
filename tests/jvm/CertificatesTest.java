package partitioncoordinator.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyPairGenerator;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Arrays;
import java.util.Base64;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Certificates and keys of TLS. {@code tests/integration/test_reader_security.py} tries them on a real broker. */
class CertificatesTest {
    private static final String CERTIFICATE = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n";
    private static final String KEY = block("", "hunter2=");

    @TempDir
    Path folder;

    private static Map<String, String> translated(Map<String, String> settings) {
        Map<String, String> given = new TreeMap<>(settings);
        given.putIfAbsent("security.protocol", "ssl");
        Certificates.translate(given, true);
        return given;
    }

    private static String refused(Map<String, String> settings) {
        var error = assertThrows(IllegalArgumentException.class, () -> translated(settings));
        assertFalse(error.getMessage().contains("hunter2"), error.getMessage());
        return error.getMessage();
    }

    private String file(String name, String text) throws IOException {
        return Files.writeString(folder.resolve(name), text).toString();
    }

    @Test
    void authoritiesComeFromAFileATextOrAFolder() throws IOException {
        String ca = file("0a1b2c3d.0", CERTIFICATE);
        file("other.pem", "no certificate");
        assertEquals(CERTIFICATE, translated(Map.of("ssl.ca.location", ca)).get("ssl.truststore.certificates"));
        assertEquals(CERTIFICATE, translated(Map.of("ssl.ca.pem", CERTIFICATE)).get("ssl.truststore.certificates"));
        var both = translated(Map.of("ssl.ca.pem", CERTIFICATE, "ssl.ca.location", folder.toString()));
        assertEquals(CERTIFICATE, both.get("ssl.truststore.certificates"));
        assertEquals("PEM", both.get("ssl.truststore.type"));
    }

    @Test
    void aMissingAuthorityIsNamed() {
        String said = refused(Map.of("ssl.ca.location", folder.resolve("none").toString()));
        assertTrue(said.contains("none cannot be read (NoSuchFileException)"), said);
        assertTrue(refused(Map.of("ssl.ca.location", folder.toString())).contains("has no certificates"));
    }

    @Test
    void javasOwnStoresAreTaken() {
        var given =
                Map.of("security.protocol", "SASL_SSL", "ssl.truststore.location", "/a", "ssl.keystore.location", "/b");
        assertEquals(given, translated(given));
    }

    @Test
    void withoutTlsNoFileIsRead() {
        var given = Map.of("security.protocol", "SASL_PLAINTEXT", "ssl.ca.location", "/none");
        assertEquals(Map.of("security.protocol", "SASL_PLAINTEXT"), translated(given));
    }

    @Test
    void aKeyAndItsCertificateBelongTogether() throws IOException {
        var found = translated(Map.of(
                "ssl.certificate.pem", CERTIFICATE, "ssl.key.location", file("key", KEY), "ssl.key.password", "x"));
        assertEquals(KEY, found.get("ssl.keystore.key"));
        assertEquals(CERTIFICATE, found.get("ssl.keystore.certificate.chain"));
        assertEquals("PEM", found.get("ssl.keystore.type"));
        assertNull(found.get("ssl.key.password")); // the key is not encrypted
        assertTrue(refused(Map.of("ssl.key.pem", KEY)).contains("are given together or not at all"));
    }

    @Test
    void anEncryptedKeyNeedsItsPassPhrase() {
        var settings = new TreeMap<>(
                Map.of("ssl.certificate.pem", CERTIFICATE, "ssl.key.pem", pem("ENCRYPTED ", new byte[3])));
        assertTrue(refused(settings).contains("ssl.key.password is not set"));
        settings.put("ssl.key.password", "hunter2");
        assertTrue(refused(settings).contains("ssl.key.password does not decrypt the private key"));
    }

    @Test
    void anOldFormOfAKeyGetsTheNewFrame() throws GeneralSecurityException {
        var maker = KeyPairGenerator.getInstance("RSA");
        maker.initialize(2048);
        byte[] expected = maker.generateKeyPair().getPrivate().getEncoded();
        byte[] inner = Arrays.copyOfRange(expected, 26, expected.length); // behind the frame
        String made = PemKey.pkcs8(pem("RSA ", inner), "");
        assertEquals(pem("", expected), made);
        byte[] read = Base64.getMimeDecoder().decode(made.replaceAll("-----[A-Z ]+-----", ""));
        KeyFactory.getInstance("RSA").generatePrivate(new PKCS8EncodedKeySpec(read));
    }

    private static String pem(String kind, byte[] key) {
        String lines = Base64.getMimeEncoder().encodeToString(key);
        return block(kind, lines) + "\n";
    }

    private static String block(String kind, String content) {
        String name = kind + "PRIVATE KEY";
        return "-----BEGIN " + name + "-----\n" + content + "\n-----END " + name + "-----";
    }

    @Test
    void anUnreadableKeyIsRefusedWithoutItsContent() {
        String old = block("RSA ", "Proc-Type: 4,ENCRYPTED\n\nhunter2");
        for (String key : new String[] {
            "hunter2", old, pem("DSA ", new byte[3]), pem("EC ", new byte[3]), pem("EC ", new byte[] {48, 3, 2, 1, 1})
        }) {
            assertTrue(
                    refused(Map.of("ssl.certificate.pem", CERTIFICATE, "ssl.key.pem", key))
                            .contains("private key"),
                    key);
        }
    }
}
