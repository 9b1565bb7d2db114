package partitioncoordinator.spark;

import static partitioncoordinator.spark.ClientSettings.unusable;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.security.AlgorithmParameters;
import java.security.GeneralSecurityException;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;
import java.util.HexFormat;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.Cipher;
import javax.crypto.EncryptedPrivateKeyInfo;
import javax.crypto.SecretKey;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.PBEKeySpec;

/**
 * A private key as Java's client reads it: PKCS #8 in PEM, without a pass phrase. Kafka's client asks Java 17 for an
 * algorithm "PBES2", which Java knows by a longer name, so encrypted keys are decrypted here.
 */
final class PemKey {
    private static final Pattern KEY = Pattern.compile(
            "-----BEGIN ([A-Z ]*)PRIVATE KEY-----(.*?)-----END [A-Z ]*PRIVATE KEY-----", Pattern.DOTALL);
    private static final String CONVERT = "; convert the key by: openssl pkcs8 -topk8 -in OLD -out NEW";
    private static final byte[] RSA = HexFormat.of().parseHex("300d06092a864886f70d0101010500");
    private static final byte[] EC = HexFormat.of().parseHex("06072a8648ce3d0201");
    private static final byte[] VERSION_0 = {2, 1, 0};
    private static final int SEQUENCE = 0x30;
    private static final int OCTETS = 0x04;
    private static final int CURVE = 0xA0;

    private PemKey() {}

    /** The key in the text. Keys in OpenSSL's older RSA and EC forms are wrapped in PKCS #8. */
    static String pkcs8(String text, String password) {
        Matcher found = KEY.matcher(text);
        if (!found.find()) {
            throw unusable("the private key of ssl.key.location or ssl.key.pem is not in PEM form");
        }
        String body = found.group(2);
        if (body.contains("ENCRYPTED")) {
            throw unusable("the private key is encrypted in OpenSSL's old form, which Java does not read" + CONVERT);
        }
        return switch (found.group(1).strip()) {
            case "" -> found.group();
            case "ENCRYPTED" -> pem(decrypted(decoded(body), password));
            case "RSA" -> framed(RSA, decoded(body));
            case "EC" -> {
                byte[] key = decoded(body);
                yield framed(der(SEQUENCE, EC, curve(key)), key);
            }
            default -> throw unusable("the private key is neither an RSA nor an EC key" + CONVERT);
        };
    }

    private static byte[] decoded(String body) {
        try {
            return Base64.getMimeDecoder().decode(body);
        } catch (IllegalArgumentException error) { // its text shows a character of the key
            throw unusable("the private key is not in base 64");
        }
    }

    private static byte[] decrypted(byte[] key, String password) {
        if (password.isEmpty()) {
            throw unusable("the private key is encrypted, and ssl.key.password is not set");
        }
        try {
            EncryptedPrivateKeyInfo info = new EncryptedPrivateKeyInfo(key);
            AlgorithmParameters parameters = info.getAlgParameters();
            String algorithm = info.getAlgName().equals("PBES2") ? parameters.toString() : info.getAlgName();
            SecretKey secret =
                    SecretKeyFactory.getInstance(algorithm).generateSecret(new PBEKeySpec(password.toCharArray()));
            Cipher cipher = Cipher.getInstance(algorithm);
            cipher.init(Cipher.DECRYPT_MODE, secret, parameters);
            return info.getKeySpec(cipher).getEncoded();
        } catch (NoSuchAlgorithmException error) {
            throw unusable("Java cannot decrypt the private key (" + error.getMessage() + ")" + CONVERT);
        } catch (GeneralSecurityException | IOException error) {
            throw unusable("ssl.key.password does not decrypt the private key");
        }
    }

    private static String framed(byte[] algorithm, byte[] key) {
        return pem(der(SEQUENCE, VERSION_0, algorithm, der(OCTETS, key)));
    }

    private static String pem(byte[] key) {
        String lines = Base64.getMimeEncoder().encodeToString(key);
        return "-----BEGIN %1$s-----\n%2$s\n-----END %1$s-----\n".formatted("PRIVATE KEY", lines);
    }

    /** The curve's identifier, which is part 0 of the sequence (RFC 5915). */
    private static byte[] curve(byte[] key) {
        try {
            ByteBuffer parts = element(ByteBuffer.wrap(key), SEQUENCE);
            while (parts.hasRemaining()) {
                int tag = parts.get(parts.position()) & 0xFF;
                ByteBuffer part = element(parts, tag);
                if (tag == CURVE) {
                    byte[] found = new byte[part.remaining()];
                    part.get(found);
                    return found;
                }
            }
        } catch (RuntimeException error) { // the bytes end early
            throw unusable("the private key is damaged");
        }
        throw unusable("the private key does not name its curve" + CONVERT);
    }

    private static ByteBuffer element(ByteBuffer bytes, int tag) {
        if ((bytes.get() & 0xFF) != tag) {
            throw new IllegalStateException();
        }
        int length = bytes.get() & 0xFF;
        if (length > 0x7F) {
            int more = length & 0x7F;
            length = 0;
            for (int i = 0; i < more; i++) {
                length = length << 8 | bytes.get() & 0xFF;
            }
        }
        ByteBuffer content = bytes.slice(bytes.position(), length);
        bytes.position(bytes.position() + length);
        return content;
    }

    private static byte[] der(int tag, byte[]... parts) {
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        for (byte[] part : parts) {
            content.writeBytes(part);
        }
        ByteArrayOutputStream made = new ByteArrayOutputStream();
        made.write(tag);
        int length = content.size();
        if (length > 0xFF) {
            made.write(0x82); // two bytes of length: a key has less than 64 KiB
            made.write(length >> 8);
        } else if (length > 0x7F) {
            made.write(0x81);
        }
        made.write(length);
        made.writeBytes(content.toByteArray());
        return made.toByteArray();
    }
}
