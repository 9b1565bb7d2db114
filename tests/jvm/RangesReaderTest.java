package partitioncoordinator.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.junit.jupiter.api.Test;

/** What a task does with the errors of its Kafka client. */
class RangesReaderTest {
    private static final TopicPartition FIRST = new TopicPartition("orders", 0);
    private static final TopicPartition SECOND = new TopicPartition("orders", 1);

    /** A client with records 0 to 4 of two partitions, of which one may be damaged at an offset. */
    private static class Log extends MockConsumer<byte[], byte[]> {
        private final Map<TopicPartition, Long> damage = new HashMap<>();
        private RuntimeException failure;
        private boolean told;

        Log() {
            super("none");
            updateBeginningOffsets(Map.of(FIRST, 0L, SECOND, 0L));
            updateEndOffsets(Map.of(FIRST, 5L, SECOND, 5L));
        }

        @Override
        public synchronized ConsumerRecords<byte[], byte[]> poll(Duration timeout) {
            if (failure != null) {
                throw failure;
            }
            Map<TopicPartition, List<ConsumerRecord<byte[], byte[]>>> found = new HashMap<>();
            for (TopicPartition key : assignment()) {
                long from = position(key);
                if (paused().contains(key) || from >= 5) {
                    continue;
                }
                if (damage.getOrDefault(key, -1L) == from && found.isEmpty()) {
                    throw new KafkaException("record batch of " + key + " is invalid");
                }
                if (damage.getOrDefault(key, -1L) == from) {
                    continue; // told by the next call, as by Kafka's client
                }
                found.put(key, List.of(new ConsumerRecord<>(key.topic(), key.partition(), from, null, null)));
                seek(key, from + 1);
            }
            return new ConsumerRecords<>(found, Map.of());
        }

        @Override
        public synchronized Map<TopicPartition, Long> beginningOffsets(
                Collection<TopicPartition> partitions, Duration timeout) {
            told = true;
            throw new TimeoutException("no answer");
        }
    }

    private static List<String> read(Log log, boolean failOnDataLoss) throws IOException {
        HashMap<String, String> kafka = new HashMap<>(Map.of("bootstrap.servers", "127.0.0.1:1"));
        ReadSettings settings =
                new ReadSettings("orders", "a", 1, kafka, "", new HashMap<>(), false, false, failOnDataLoss, 60_000);
        new KeptClient(settings.client(), log).giveBack();
        OffsetRange[] ranges = {new OffsetRange(0, 0, 5, 1), new OffsetRange(1, 0, 5, 1)};
        List<String> found = new ArrayList<>();
        try (RangesReader reader = new RangesReader(settings, ranges)) {
            while (reader.next()) {
                found.add(reader.get().getInt(3) + ":" + reader.get().getLong(4));
            }
        }
        assertTrue(log.closed() || KeptClient.take(settings.client(), List.of()).consumer == log);
        return found;
    }

    @Test
    void damagedRecordsAreLostAndTheirPartitionIsNamed() {
        Log log = new Log();
        log.damage.put(SECOND, 2L);
        var error = assertThrows(IOException.class, () -> read(log, true));
        assertEquals(
                "DataLost: topic orders, partition 1, planned 0 to 4: the records at offset 2 are damaged (record"
                        + " batch of orders-1 is invalid); set failOnDataLoss=false to go on without them",
                error.getMessage());
    }

    @Test
    void damagedRecordsAreLeftOutWhereThatIsWantedAndNoOtherRecord() throws IOException {
        Log log = new Log();
        log.damage.put(SECOND, 2L);
        List<String> found = read(log, false);
        found.sort(null);
        assertEquals(List.of("0:0", "0:1", "0:2", "0:3", "0:4", "1:0", "1:1", "1:3", "1:4"), found);
    }

    @Test
    void aMissingRightIsNoDamage() {
        Log log = new Log();
        log.failure = new TopicAuthorizationException("orders");
        var error = assertThrows(IOException.class, () -> read(log, true));
        assertTrue(error.getMessage().startsWith("ReadFailed: topic orders cannot be read: "), error.getMessage());
    }

    @Test
    void anEndedTaskIsNoDamage() {
        Log log = new Log();
        log.failure = new InterruptException("ended");
        assertThrows(InterruptedIOException.class, () -> read(log, true));
        assertTrue(Thread.interrupted());
    }

    @Test
    void aBrokerThatIsSilentAboutALossIsAFailureOfTheReadAndNotOfTheClient() {
        Log log = new Log();
        log.failure = new OffsetOutOfRangeException(Map.of(FIRST, 0L));
        var error = assertThrows(IOException.class, () -> read(log, true));
        assertTrue(log.told);
        assertTrue(error.getMessage().startsWith("ReadFailed: topic orders cannot be read: "), error.getMessage());
    }

    @Test
    void anErrorOfOnePartitionAloneIsNoDamageOfIt() {
        Log log = new Log() {
            private int polls;

            @Override
            public synchronized ConsumerRecords<byte[], byte[]> poll(Duration timeout) {
                throw polls++ == 0 ? new KafkaException("damaged") : new TopicAuthorizationException("orders");
            }
        };
        var error = assertThrows(IOException.class, () -> read(log, true));
        assertTrue(error.getMessage().startsWith("ReadFailed: "), error.getMessage());
    }
}
