import java.io.FileInputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;

/**
 * Kafka's own Java consumer in the hand-off benchmark: connects, waits for a file, consumes until SIGTERM, and leaves.
 *
 * Arguments: a file of consumer properties, the topic, the journal, the file that says it is ready, the file it waits for.
 * The journal has a span for each run of offsets: when (seconds of CLOCK_MONOTONIC, a double), partition (int), first offset
 * and the one after the last (longs), little-endian.
 */
public final class HandoffConsumer {
    private static final int SPAN_BYTES = 28;
    private static final Duration POLL = Duration.ofMillis(10);

    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        try (FileInputStream file = new FileInputStream(args[0])) {
            settings.load(file);
        }
        String topic = args[1];
        Thread main = Thread.currentThread();
        try (FileChannel journal =
                        FileChannel.open(Path.of(args[2]), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
                KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            consumer.partitionsFor(topic); // connected and warm, as ours is
            Files.createFile(Path.of(args[3]));
            while (!Files.exists(Path.of(args[4]))) {
                Thread.sleep(20);
            }
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                consumer.wakeup();
                try {
                    main.join();
                } catch (InterruptedException ended) {
                    Thread.currentThread().interrupt();
                }
            }));
            consumer.subscribe(List.of(topic));
            while (true) {
                note(journal, consumer);
            }
        } catch (WakeupException asked) {
            // the consumer is closed: it has left its group
        }
    }

    private static void note(FileChannel journal, KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        var records = consumer.poll(POLL);
        if (records.isEmpty()) {
            return;
        }
        double now = System.nanoTime() / 1e9;
        ByteBuffer spans = ByteBuffer.allocate(records.count() * SPAN_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        for (TopicPartition partition : records.partitions()) {
            long first = -1;
            long end = -1;
            for (ConsumerRecord<byte[], byte[]> one : records.records(partition)) {
                if (one.offset() != end) {
                    put(spans, now, partition, first, end);
                    first = one.offset();
                }
                end = one.offset() + 1;
            }
            put(spans, now, partition, first, end);
        }
        journal.write(spans.flip());
    }

    private static void put(ByteBuffer spans, double now, TopicPartition partition, long first, long end) {
        if (first >= 0) {
            spans.putDouble(now).putInt(partition.partition()).putLong(first).putLong(end);
        }
    }
}
