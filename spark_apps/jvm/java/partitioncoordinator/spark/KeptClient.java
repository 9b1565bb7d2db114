package partitioncoordinator.spark;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;

/**
 * A Kafka client of this process, kept from task to task together with records fetched beyond the ends of ranges. One
 * task uses a client at a time. The client belongs to no group and commits nothing.
 */
final class KeptClient {
    /** Age at which kept records are fetched again, because the log may have changed. */
    static final long FRESH_NS = 10_000_000_000L;

    private static final long IDLE_NS = 300_000_000_000L;
    private static final List<KeptClient> IDLE = new ArrayList<>();

    final Consumer<byte[], byte[]> consumer;
    private final Map<String, Object> settings;
    private final Map<TopicPartition, Ahead> ahead = new HashMap<>();
    private long idleSince;

    /**
     * A partition's next offset, the records fetched from there on, their time, and the holding under which they were
     * read.
     */
    private record Ahead(long next, long epoch, List<ConsumerRecord<byte[], byte[]>> records, long at) {}

    KeptClient(Map<String, Object> settings, Consumer<byte[], byte[]> consumer) {
        this.settings = settings;
        this.consumer = consumer;
    }

    /** An idle client with these settings, preferably with records of these partitions; otherwise a new client. */
    static KeptClient take(Map<String, Object> settings, Collection<TopicPartition> partitions) {
        List<KeptClient> old = new ArrayList<>();
        KeptClient best = null;
        synchronized (IDLE) {
            long now = System.nanoTime();
            long most = -1;
            for (KeptClient client : IDLE) {
                long common =
                        partitions.stream().filter(client.ahead::containsKey).count();
                if (now - client.idleSince > IDLE_NS) {
                    old.add(client);
                } else if (common > most && client.settings.equals(settings)) {
                    best = client;
                    most = common;
                }
            }
            IDLE.removeAll(old);
            IDLE.remove(best);
        }
        old.forEach(KeptClient::close);
        return best != null ? best : new KeptClient(settings, ClientSettings.client(settings));
    }

    void giveBack() {
        idleSince = System.nanoTime();
        synchronized (IDLE) {
            IDLE.add(this);
        }
    }

    /** Fetch only these partitions, from the beginning of their ranges. Returns the kept records by partition. */
    Map<TopicPartition, List<ConsumerRecord<byte[], byte[]>>> begin(Map<TopicPartition, OffsetRange> ranges) {
        long now = System.nanoTime();
        ahead.values().removeIf(kept -> now - kept.at > FRESH_NS);
        Set<TopicPartition> assigned = new HashSet<>(ahead.keySet());
        assigned.addAll(ranges.keySet());
        if (!assigned.equals(consumer.assignment())) {
            consumer.assign(assigned);
        }
        consumer.pause(assigned);
        consumer.resume(ranges.keySet());
        Map<TopicPartition, List<ConsumerRecord<byte[], byte[]>>> found = new HashMap<>();
        ranges.forEach((partition, range) -> {
            Ahead kept = ahead.remove(partition);
            if (kept == null || kept.next != range.start() || kept.epoch != range.epoch()) {
                consumer.seek(partition, range.start());
            } else if (!kept.records.isEmpty()) {
                found.put(partition, kept.records);
            }
        });
        return found;
    }

    /** End a range before {@code next}. The fetched records from there on are kept for the next range. */
    void finish(TopicPartition partition, long next, long epoch, List<ConsumerRecord<byte[], byte[]>> rest) {
        consumer.pause(List.of(partition));
        ahead.put(partition, new Ahead(next, epoch, rest, System.nanoTime()));
    }

    void close() {
        boolean interrupted = Thread.interrupted(); // while interrupted, the client would not close its connections
        try {
            consumer.close(Duration.ofSeconds(1));
        } catch (InterruptException again) {
            interrupted = true;
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
