package partitioncoordinator.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

/** The stream of one topic. The agent decides everything. Spark's offset holds the agent's JSON without reading it. */
final class AssignedStream implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
    private final Map<String, String> options;
    private final boolean blocks;
    private Agent agent; // connected at the first request, because Spark may make streams that it does not use
    private ReadSettings settings;
    private BatchOffset logEnd;
    private Map<String, String> metrics = Map.of();
    private boolean untilNow;

    AssignedStream(Map<String, String> options, boolean blocks) {
        this.options = options;
        this.blocks = blocks;
    }

    @Override
    public void prepareForTriggerAvailableNow() {
        ask("until_now", Map.of());
        untilNow = true;
    }

    @Override
    public Offset initialOffset() {
        return new BatchOffset(ask("initial", Map.of()));
    }

    @Override
    public Offset latestOffset() {
        throw new UnsupportedOperationException("Spark asks with a start");
    }

    /**
     * The next batch; {@code start} if there is none. The agent waits a moment for records, and has the limit from the
     * options.
     */
    @Override
    public Offset latestOffset(Offset start, ReadLimit limit) {
        Map<String, Object> from = Map.of("start", Agent.read(start.json()));
        while (true) {
            JsonNode latest = ask("latest", from);
            logEnd = latest.get("log_end").isNull() ? null : new BatchOffset(latest.get("log_end"));
            metrics = ReadSettings.texts(latest.get("metrics"));
            BatchOffset batch = new BatchOffset(latest.get("batch"));
            // An unchanged offset ends the query, but partitions may still be on their way to this consumer.
            if (!untilNow
                    || !batch.json().equals(start.json())
                    || ask("is_over", Map.of()).asBoolean()) {
                return batch;
            }
        }
    }

    @Override
    public Offset reportLatestOffset() {
        return logEnd;
    }

    /** The lag behind the last planned batch, under the names of Spark's Kafka source. */
    @Override
    public Map<String, String> metrics(Optional<Offset> consumed) {
        return metrics;
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
        if (start.json().equals(end.json())) {
            return new InputPartition[0];
        }
        JsonNode tasks = ask("tasks", Map.of("end", Agent.read(end.json())));
        InputPartition[] planned = new InputPartition[tasks.size()];
        for (int number = 0; number < planned.length; number++) {
            JsonNode group = tasks.get(number);
            OffsetRange[] ranges = new OffsetRange[group.size()];
            for (int place = 0; place < ranges.length; place++) {
                JsonNode range = group.get(place);
                ranges[place] = new OffsetRange(
                        range.get(0).asInt(),
                        range.get(1).asLong(),
                        range.get(2).asLong(),
                        range.get(3).asLong());
            }
            planned[number] = new Task(ranges);
        }
        return planned;
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        connected();
        return new Readers(settings, blocks ? BlockReader.Shape.ofSession() : null);
    }

    @Override
    public Offset deserializeOffset(String json) {
        return new BatchOffset(Agent.read(json));
    }

    @Override
    public void commit(Offset end) {
        // the next request for a batch tells the agent
    }

    @Override
    public void stop() {
        if (agent != null) {
            agent.close();
            agent = null;
        }
    }

    private JsonNode ask(String call, Map<String, ?> fields) {
        return connected().ask(call, fields);
    }

    private Agent connected() {
        if (agent == null) {
            Agent connection = Agent.connect();
            String reader = UUID.randomUUID().toString().substring(0, 12);
            try {
                settings = ReadSettings.of(connection.ask(
                        "attach", Map.of("version", Agent.VERSION, "reader", reader, "options", options)));
                ClientSettings.check(settings.kafka(), settings.options());
            } catch (RuntimeException error) {
                connection.close(); // else the agent would refuse the next reader of the topic
                throw error;
            }
            agent = connection;
        }
        return agent;
    }

    private static final class BatchOffset extends Offset {
        private final String json;

        BatchOffset(JsonNode offset) {
            json = offset.toString();
        }

        @Override
        public String json() {
            return json;
        }
    }

    record Task(OffsetRange[] ranges) implements InputPartition {}

    /** {@code blocks}: shape of the blocks for a Python stage; null = rows. */
    record Readers(ReadSettings settings, BlockReader.Shape blocks) implements PartitionReaderFactory {
        @Override
        public PartitionReader<InternalRow> createReader(InputPartition partition) {
            OffsetRange[] ranges = ((Task) partition).ranges();
            return blocks == null ? new RangesReader(settings, ranges) : new BlockReader(settings, ranges, blocks);
        }
    }
}
