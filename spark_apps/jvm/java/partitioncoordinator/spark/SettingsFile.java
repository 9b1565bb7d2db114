package partitioncoordinator.spark;

import static partitioncoordinator.spark.ClientSettings.bad;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.security.auth.module.UnixSystem;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.UnaryOperator;
import org.apache.spark.SparkEnv;
import org.apache.spark.SparkFiles;

/**
 * Secret Kafka settings. The text is a JSON object of strings, or lines of {@code name=value}; {@code #} begins a comment
 * line. Sources in order: the option {@code kafkaSettingsFile}, the variable {@code ASSIGNED_KAFKA_SETTINGS_FILE} (both a
 * path on every executor, or the name of a file shipped with {@code --files}), the variable
 * {@code ASSIGNED_KAFKA_SETTINGS_SECRET} (the text itself). Errors never show a value.
 */
final class SettingsFile {
    static final String FILE_VARIABLE = "ASSIGNED_KAFKA_SETTINGS_FILE";
    static final String SECRET_VARIABLE = "ASSIGNED_KAFKA_SETTINGS_SECRET";

    private static final ObjectMapper JSON = new ObjectMapper()
            .enable(JsonParser.Feature.STRICT_DUPLICATE_DETECTION)
            .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS);
    private static final int OPEN_TO_OTHERS = 077;

    private SettingsFile() {}

    /** The settings of the first source that exists; empty without a source. */
    static Map<String, String> load(String path) {
        return load(path, SettingsFile::variable);
    }

    static Map<String, String> load(String path, UnaryOperator<String> environment) {
        String named = path.isEmpty() ? environment.apply(FILE_VARIABLE) : path;
        return named.isEmpty()
                ? parse(environment.apply(SECRET_VARIABLE), "environment variable " + SECRET_VARIABLE)
                : read(find(named));
    }

    /** A variable of the executors. In local mode, Spark sets these variables only for Python processes. */
    private static String variable(String name) {
        SparkEnv spark = SparkEnv.get();
        String own = System.getenv().getOrDefault(name, "");
        return spark == null ? own : spark.conf().get("spark.executorEnv." + name, own);
    }

    private static Path find(String named) {
        Path path = Path.of(named.startsWith("~/") ? System.getProperty("user.home") + named.substring(1) : named);
        Path shipped = shipped(path.getFileName());
        boolean bare = path.getNameCount() == 1 && !path.isAbsolute();
        // Look for a bare name among the shipped files first: on a cluster they are in the working folder as well.
        for (Path candidate : bare ? new Path[] {shipped, path} : new Path[] {path, shipped}) {
            if (candidate != null && Files.isRegularFile(candidate)) {
                return candidate;
            }
        }
        throw bad("the Kafka settings file " + named + " is not there; put it on every host, or ship it with --files");
    }

    /** A file that Spark has copied to this executor. Everybody can read the copy until its mode is changed here. */
    private static Path shipped(Path name) {
        Path copy = SparkEnv.get() == null
                ? null
                : Path.of(SparkFiles.getRootDirectory()).resolve(name);
        if (copy == null || !Files.isRegularFile(copy)) {
            return null;
        }
        try {
            Files.setPosixFilePermissions(copy, PosixFilePermissions.fromString("rw-------"));
        } catch (IOException error) {
            throw unreadable(copy, error);
        }
        return copy;
    }

    private static Map<String, String> read(Path path) {
        try {
            int owner = (Integer) Files.getAttribute(path, "unix:uid");
            int mode = (Integer) Files.getAttribute(path, "unix:mode") & 07777;
            long own = new UnixSystem().getUid();
            if (owner != own) {
                throw bad(
                        "the Kafka settings file %s belongs to the user with uid %d, not to this one (%d); its owner could change it: chown it to the user that runs this"
                                .formatted(path, owner, own));
            }
            if ((mode & OPEN_TO_OTHERS) != 0) {
                throw bad(
                        "the Kafka settings file %s may be read by others (mode %04o) and can hold secrets; run chmod 600 %s"
                                .formatted(path, mode, path));
            }
            return parse(Files.readString(path), "Kafka settings file " + path);
        } catch (IOException error) {
            throw unreadable(path, error);
        }
    }

    private static IllegalArgumentException unreadable(Path path, IOException error) {
        return bad("the Kafka settings file %s cannot be read (%s)"
                .formatted(path, error.getClass().getSimpleName()));
    }

    private static Map<String, String> parse(String text, String origin) {
        Map<String, String> found = text.stripLeading().startsWith("{") ? json(text, origin) : lines(text, origin);
        String all = String.join("", found.keySet()) + String.join("", found.values());
        boolean undecoded = all.indexOf('\uFFFD') >= 0; // the JVM's mark for undecodable bytes
        if (all.indexOf('\0') >= 0
                || undecoded
                || !StandardCharsets.UTF_8.newEncoder().canEncode(all)) {
            throw bad("the " + origin + " has a byte that is not UTF-8, or a NUL; correct it");
        }
        return found;
    }

    private static Map<String, String> lines(String text, String origin) {
        Map<String, String> found = new TreeMap<>();
        int number = 0;
        for (String line : text.split("\\R", -1)) {
            number++;
            String stripped = line.strip();
            int equals = stripped.indexOf('=');
            if (stripped.isEmpty() || stripped.startsWith("#")) {
                continue;
            }
            if (equals < 1) {
                throw bad("line " + number + " of the " + origin + " is not name=value");
            }
            found.put(
                    stripped.substring(0, equals).strip(),
                    stripped.substring(equals + 1).strip());
        }
        return found;
    }

    private static Map<String, String> json(String text, String origin) {
        Map<String, String> found = new TreeMap<>();
        JsonNode data;
        try {
            data = JSON.readTree(text);
        } catch (JsonProcessingException error) { // its text and its cause would show the content
            throw bad("the " + origin + " begins like JSON, but is not valid JSON with each name once");
        }
        data.properties().forEach(field -> {
            JsonNode value = field.getValue();
            if (!value.isValueNode() || value.isNull()) {
                throw bad("the " + origin + " has a value that is neither text nor a number");
            }
            found.put(field.getKey(), value.asText());
        });
        return found;
    }
}
