package partitioncoordinator.spark;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.text.DecimalFormat;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.header.Header;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads the ranges of a task to their ends. Has no effect outside this process, so a task may run twice. A range ends
 * at a position and not at a count, because compaction, aborted transactions and control records leave gaps.
 *
 * <p>The driver may lack the classes of Kafka's exceptions and of ours. So an executor raises an {@code IOException}
 * whose text begins with the kind ({@code DataLost}, {@code ReadFailed}).
 */
final class RangesReader implements PartitionReader<InternalRow> {
    private static final Logger LOG = LoggerFactory.getLogger(RangesReader.class);
    private static final Duration POLL = Duration.ofMillis(200);
    private static final Duration LOOKUP = Duration.ofSeconds(10);
    private static final long NUDGE_MS = 10_000;
    // After this time, a log that ends before a planned record counts as cut. A new leader may lag for 30 s.
    private static final long CUT_MS = 35_000;

    private final ReadSettings settings;
    private final RowWriter writer;
    private final KeptClient client;
    private final Map<TopicPartition, OffsetRange> ranges = new HashMap<>();
    // Next offsets of the ranges that are not read to their ends.
    private final Map<TopicPartition, Long> positions = new TreeMap<>(Comparator.comparing(TopicPartition::partition));
    private final ArrayDeque<List<ConsumerRecord<byte[], byte[]>>> fetched = new ArrayDeque<>();
    private final Set<TopicPartition> damaged = new HashSet<>();
    private List<ConsumerRecord<byte[], byte[]>> records = List.of(); // fetched records of one partition
    private int place;
    private TopicPartition partition;
    private long end;
    private long epoch;
    private long progressAt = System.nanoTime();
    private long lookedAt = progressAt;
    private Exception complaint;

    RangesReader(ReadSettings settings, OffsetRange[] wanted) {
        this.settings = settings;
        writer = new RowWriter(settings);
        for (OffsetRange range : wanted) {
            TopicPartition key = new TopicPartition(settings.topic(), range.partition());
            ranges.put(key, range);
            positions.put(key, range.start());
        }
        client = KeptClient.take(settings.client(), ranges.keySet());
        client.begin(ranges).values().forEach(fetched::add);
        ranges.forEach((key, range) -> endAt(key, range.start()));
    }

    @Override
    public boolean next() throws IOException {
        while (true) {
            if (place < records.size()) {
                ConsumerRecord<byte[], byte[]> record = records.get(place);
                if (record.offset() < end) {
                    place++;
                    writer.write(record, epoch);
                    return true;
                }
            }
            passRecords();
            if (!fetched.isEmpty()) {
                begin(fetched.poll());
            } else if (positions.isEmpty()) {
                return false;
            } else {
                fetchOrTell();
            }
        }
    }

    @Override
    public InternalRow get() {
        return writer.row();
    }

    /** Bytes of those parts of the record that a row has. */
    int size() {
        ConsumerRecord<byte[], byte[]> record = records.get(place - 1);
        int size = length(record.key()) + length(record.value());
        if (settings.includeHeaders()) {
            for (Header header : record.headers()) {
                size += header.key().length() + length(header.value());
            }
        }
        return size;
    }

    private static int length(byte[] bytes) {
        return bytes == null ? 0 : bytes.length;
    }

    @Override
    public void close() {
        if (positions.isEmpty() && fetched.isEmpty()) {
            client.giveBack();
        } else {
            client.close(); // a range is unfinished: the next task uses another client
        }
    }

    private void begin(List<ConsumerRecord<byte[], byte[]>> next) {
        ConsumerRecord<byte[], byte[]> first = next.get(0);
        partition = new TopicPartition(first.topic(), first.partition());
        OffsetRange range = ranges.get(partition);
        records = next;
        place = 0;
        end = range.end();
        epoch = range.epoch();
    }

    /** Leave the records of a fetch: all are read, or the rest lies beyond the range's end. */
    private void passRecords() {
        if (!records.isEmpty()) {
            boolean over = place < records.size();
            long position = over ? end : records.get(place - 1).offset() + 1;
            endAt(partition, position, over ? List.copyOf(records.subList(place, records.size())) : List.of());
            records = List.of();
            place = 0;
        }
    }

    private void endAt(TopicPartition key, long position) {
        endAt(key, position, List.of());
    }

    private void endAt(TopicPartition key, long position, List<ConsumerRecord<byte[], byte[]>> rest) {
        OffsetRange range = ranges.get(key);
        if (position > positions.getOrDefault(key, Long.MAX_VALUE)) {
            progressAt = System.nanoTime();
            complaint = null;
        }
        if (position < range.end()) {
            positions.put(key, position);
        } else {
            positions.remove(key);
            client.finish(key, range.end(), range.epoch(), rest);
        }
    }

    private void fetchOrTell() throws IOException {
        try {
            fetch();
        } catch (InterruptException error) {
            throw new InterruptedIOException("the task was ended");
        } catch (KafkaException error) {
            throw refused(error.toString());
        }
    }

    private void fetch() throws IOException {
        poll(List.copyOf(positions.keySet()));
        long now = System.nanoTime();
        if (!fetched.isEmpty() || positions.isEmpty()) {
            return;
        }
        long silentMs = (now - progressAt) / 1_000_000;
        if (silentMs > settings.progressTimeoutMs()) {
            throw silent();
        }
        if ((now - Math.max(progressAt, lookedAt)) / 1_000_000 > Math.min(NUDGE_MS, settings.progressTimeoutMs() / 4)) {
            lookedAt = now;
            lookAround(silentMs > Math.min(CUT_MS, settings.progressTimeoutMs() / 2));
        }
    }

    /** Poll once, for these partitions only. */
    private void poll(List<TopicPartition> asked) throws IOException {
        try {
            ConsumerRecords<byte[], byte[]> polled = client.consumer.poll(POLL);
            for (TopicPartition key : polled.partitions()) {
                fetched.add(polled.records(key));
            }
            if (polled.isEmpty()) {
                passGaps(asked);
            }
        } catch (OffsetOutOfRangeException error) {
            for (TopicPartition key : error.offsetOutOfRangePartitions().keySet()) {
                lookForLoss(key);
            }
        } catch (AuthenticationException | RetriableException error) {
            complaint = error;
        } catch (ApiException | InterruptException error) {
            throw error;
        } catch (KafkaException error) { // records that the client cannot decode
            complaint = error;
            if (asked.size() == 1) {
                passDamaged(asked.get(0), error);
            } else {
                pollApart(asked);
            }
        }
    }

    /** Poll each partition alone, to find the partition with damaged records. */
    private void pollApart(List<TopicPartition> asked) throws IOException {
        for (TopicPartition key : asked) {
            client.consumer.pause(asked);
            client.consumer.resume(List.of(key));
            poll(List.of(key));
        }
        client.consumer.resume(positions.keySet());
    }

    private void passDamaged(TopicPartition key, KafkaException error) throws IOException {
        long offset = client.consumer.position(key, LOOKUP);
        if (damaged.add(key)) {
            report(key, "the records at offset " + offset + " are damaged (" + error.getMessage() + ")");
        }
        client.consumer.seek(key, offset + 1);
        endAt(key, offset + 1);
    }

    /** Move the positions past control records and aborted records, for which no record comes. */
    private void passGaps(List<TopicPartition> asked) {
        for (TopicPartition key : asked) {
            endAt(key, client.consumer.position(key, LOOKUP));
        }
    }

    private Duration lookup() {
        return Duration.ofMillis(Math.min(LOOKUP.toMillis(), settings.progressTimeoutMs()));
    }

    /**
     * Without records for a while, check whether the topic exists, and whether a log was cut before a planned record.
     */
    private void lookAround(boolean cut) throws IOException {
        try {
            List<PartitionInfo> known = client.consumer.partitionsFor(settings.topic(), lookup());
            for (TopicPartition key : positions.keySet()) {
                if (known == null || known.stream().noneMatch(info -> info.partition() == key.partition())) {
                    throw refused("Kafka knows no partition " + key.partition() + " of the topic");
                }
            }
            Map<TopicPartition, Long> ends = cut ? client.consumer.endOffsets(positions.keySet(), LOOKUP) : Map.of();
            for (Map.Entry<TopicPartition, Long> log : ends.entrySet()) {
                if (log.getValue() <= positions.get(log.getKey())) {
                    lookForLoss(log.getKey());
                }
            }
        } catch (InterruptException error) {
            throw error;
        } catch (KafkaException error) {
            complaint = error;
        }
    }

    /** Handle a position that is not in the log: fail, or continue with the remaining records. */
    private void lookForLoss(TopicPartition key) throws IOException {
        Long position = positions.get(key);
        if (position == null) {
            return;
        }
        long first = client.consumer.beginningOffsets(List.of(key), LOOKUP).get(key);
        long last = client.consumer.endOffsets(List.of(key), LOOKUP).get(key);
        long until = ranges.get(key).end();
        long resumed = position < first ? Math.min(first, until) : position < last ? position : until;
        String gone = "offsets " + position + " to ";
        report(
                key,
                position < first
                        ? gone + (resumed - 1) + " are gone, the log begins at " + first
                        : position < last
                                ? "offset " + position + " is refused although the log has " + first + " to "
                                        + (last - 1) + " (truncated and written again, or recreated)"
                                : gone + (until - 1) + " are not there, the log ends at " + last
                                        + " (truncated or recreated)");
        client.consumer.seek(key, resumed);
        endAt(key, resumed);
    }

    private void report(TopicPartition key, String problem) throws IOException {
        OffsetRange range = ranges.get(key);
        String what = "topic " + key.topic() + ", partition " + key.partition() + ", planned " + range.start() + " to "
                + (range.end() - 1) + ": " + problem;
        if (settings.failOnDataLoss()) {
            throw new IOException("DataLost: " + what + "; set failOnDataLoss=false to go on without them");
        }
        LOG.warn("{}; continuing without them because failOnDataLoss is false", what);
    }

    private IOException refused(String why) {
        return new IOException("ReadFailed: topic " + settings.topic() + " cannot be read: " + why);
    }

    private IOException silent() {
        StringBuilder missing = new StringBuilder();
        positions.forEach((key, at) -> missing.append(missing.isEmpty() ? "" : ", ")
                .append("partition ")
                .append(key.partition())
                .append(": at ")
                .append(at)
                .append(", wanted up to ")
                .append(ranges.get(key).end() - 1));
        String last = complaint == null ? "" : "; Kafka's last word: " + complaint;
        double seconds = settings.progressTimeoutMs() / 1000.0;
        return new IOException("ReadFailed: topic " + settings.topic() + " gave nothing for "
                + new DecimalFormat("0.###").format(seconds)
                + " s (" + missing + ")" + last
                + "; check that every executor reaches the brokers under their advertised addresses");
    }
}
