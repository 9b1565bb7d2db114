package partitioncoordinator.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Secret settings, from a private file or from the environment: the same rules as {@code load_settings} in Python. */
class SettingsFileTest {
    @TempDir
    Path folder;

    private Path file(String text, String mode) throws IOException {
        Path path = folder.resolve("kafka.properties");
        Files.write(path, text.getBytes(StandardCharsets.ISO_8859_1));
        return Files.setPosixFilePermissions(path, PosixFilePermissions.fromString(mode));
    }

    private static Map<String, String> load(String path, Map<String, String> environment) {
        return SettingsFile.load(path, name -> environment.getOrDefault(name, ""));
    }

    private static String refused(String path, Map<String, String> environment) {
        var error = assertThrows(IllegalArgumentException.class, () -> load(path, environment));
        assertTrue(error.getMessage().startsWith("BadSettings: "), error.getMessage());
        assertFalse(error.getMessage().contains("hunter2"), error.getMessage());
        return error.getMessage();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "# a comment\nsasl.username = alice\n\nsasl.password=a=b\r\n",
                "{\"sasl.username\": \"alice\", \"sasl.password\": \"a=b\"}",
            })
    void secretSettingsComeFromAPrivateFileOrTheEnvironment(String text) throws IOException {
        String path = file(text, "rw-------").toString();
        var expected = Map.of("sasl.username", "alice", "sasl.password", "a=b");
        assertEquals(expected, load(path, Map.of()));
        assertEquals(expected, load("", Map.of(SettingsFile.FILE_VARIABLE, path)));
        assertEquals(expected, load("", Map.of(SettingsFile.SECRET_VARIABLE, text)));
        assertEquals(Map.of(), load("", Map.of()));
    }

    /** Examples of what launchers write: each release's is read. */
    @Test
    void theFileOfEachReleaseIsRead() throws IOException {
        try (Stream<Path> releases = Files.list(Path.of("tests/formats"))) {
            for (Path example : releases.map(release -> release.resolve("kafka-file"))
                    .filter(Files::exists)
                    .toList()) {
                String path = file(Files.readString(example), "rw-------").toString();
                var expected =
                        Map.of("bootstrap.servers", "h:9092", "sasl.username", "ada", "sasl.password", "made up");
                assertEquals(expected, load(path, Map.of()), example.toString());
            }
        }
    }

    @Test
    void aNumberIsText() {
        var text = Map.of(SettingsFile.SECRET_VARIABLE, "{\"a\": 1, \"b\": true, \"c\": 1.5}");
        assertEquals(Map.of("a", "1", "b", "true", "c", "1.5"), load("", text));
    }

    @Test
    void aFileThatOthersCanReadIsRefused() throws IOException {
        String said = refused(file("sasl.password=hunter2", "rw-r-----").toString(), Map.of());
        assertTrue(said.contains("may be read by others (mode 0640) and can hold secrets; run chmod 600"), said);
    }

    @Test
    void aFileOfAnotherUserIsRefused() throws IOException {
        Path path = file("sasl.password=hunter2", "rw-------");
        try {
            Files.setAttribute(path, "unix:uid", 12345);
        } catch (IOException notRoot) {
            path = Path.of("/etc/passwd");
        }
        assertTrue(refused(path.toString(), Map.of()).contains("belongs to the user with uid "));
    }

    static Stream<String> unreadable() {
        return Stream.of(
                "hunter2",
                "{\"sasl.password\": hunter2}",
                "{\"sasl.password\": [\"hunter2\"]}",
                "{\"sasl.password\": null, \"hunter2\": 1}",
                "{\"sasl.password\": \"hunter2\", \"sasl.password\": \"x\"}",
                "{\"sasl.password\": \"hunter2\\ud800\"}",
                "{\"hunter2\":".repeat(100_000),
                "{\"sasl.password\": \"hunter2\\u0000\"}",
                "{\"sasl.password\": \"hunter2\"} {}",
                "sasl.password=hunter2\0",
                "sasl.password=hunter2\u00ff");
    }

    @ParameterizedTest
    @MethodSource("unreadable")
    void anUnreadableFileIsRefusedWithoutItsContent(String text) throws IOException {
        refused(file(text, "rw-------").toString(), Map.of());
    }

    @Test
    void aVariableThatTheJvmCouldNotDecodeIsRefused() {
        String said = refused("", Map.of(SettingsFile.SECRET_VARIABLE, "sasl.password=hunter2\uFFFD"));
        assertTrue(said.contains("variable ASSIGNED_KAFKA_SETTINGS_SECRET has a byte that is not UTF-8"), said);
    }

    @Test
    void aMissingFileIsNamed() {
        String said = refused(folder.resolve("none").toString(), Map.of());
        assertTrue(said.contains("none is not there; put it on every host, or ship it with --files"), said);
    }
}
