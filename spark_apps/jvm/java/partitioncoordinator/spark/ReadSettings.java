package partitioncoordinator.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;

/**
 * What a task needs besides its ranges. Spark sends the settings with the task: they hold no secret.
 *
 * @param kafka the topic's and the consumer's settings of the Kafka client, in librdkafka's names
 * @param options the source's settings of the Kafka client; they override the settings file
 */
record ReadSettings(
        String topic,
        String consumer,
        long incarnation,
        HashMap<String, String> kafka,
        String settingsFile,
        HashMap<String, String> options,
        boolean includeHeaders,
        boolean includeAssignment,
        boolean failOnDataLoss,
        long progressTimeoutMs)
        implements Serializable {

    static ReadSettings of(JsonNode attached) {
        return new ReadSettings(
                attached.get("topic").asText(),
                attached.get("consumer").asText(),
                attached.get("incarnation").asLong(),
                texts(attached.get("kafka")),
                attached.get("settings_file").asText(),
                texts(attached.get("options")),
                attached.get("include_headers").asBoolean(),
                attached.get("include_assignment").asBoolean(),
                attached.get("fail_on_data_loss").asBoolean(),
                attached.get("progress_timeout_ms").asLong());
    }

    Map<String, Object> client() {
        return ClientSettings.of(kafka, settingsFile, options);
    }

    static HashMap<String, String> texts(JsonNode object) {
        HashMap<String, String> found = new HashMap<>();
        object.fields()
                .forEachRemaining(
                        field -> found.put(field.getKey(), field.getValue().asText()));
        return found;
    }
}
