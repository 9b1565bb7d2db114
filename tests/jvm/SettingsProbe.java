package partitioncoordinator.spark;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** Asks for the end of partition 0 of a topic with each of the given settings files; a line for each answer. */
final class SettingsProbe {
    /** Begins the lines of answers; the log writes lines as well. */
    private static final String ANSWER = "answer: ";

    private static final Duration LIMIT = Duration.ofSeconds(20);

    private SettingsProbe() {}

    public static void main(String[] arguments) {
        TopicPartition partition = new TopicPartition(arguments[0], 0);
        for (String file : List.of(arguments).subList(1, arguments.length)) {
            System.out.println(ANSWER + answer(partition, file).replace('\n', ' '));
        }
    }

    private static String answer(TopicPartition partition, String file) {
        try (var client = ClientSettings.client(ClientSettings.of(Map.of(), file, Map.of()))) {
            return "end " + client.endOffsets(List.of(partition), LIMIT).get(partition);
        } catch (RuntimeException error) {
            return error.toString();
        }
    }
}
