package partitioncoordinator.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

/** Where blocks of records end. */
class BlockReaderTest {
    private static int made;

    private static BlockReader reader(int records, int size, int mostRecords) {
        return reader(records, new byte[size], new byte[0], mostRecords);
    }

    private static BlockReader reader(int records, byte[] value, byte[] header, int mostRecords) {
        TopicPartition partition = new TopicPartition("orders", 0);
        MockConsumer<byte[], byte[]> log = new MockConsumer<>("none");
        HashMap<String, String> kafka = new HashMap<>(Map.of("bootstrap.servers", "127.0.0.2:" + ++made));
        ReadSettings settings =
                new ReadSettings("orders", "a", 1, kafka, "", new HashMap<>(), true, true, true, 60_000);
        new KeptClient(settings.client(), log).giveBack();
        log.schedulePollTask(() -> {
            for (int offset = 0; offset < records; offset++) {
                ConsumerRecord<byte[], byte[]> record = new ConsumerRecord<>("orders", 0, offset, null, value);
                record.headers().add("h", header);
                log.addRecord(record);
            }
        });
        log.updateBeginningOffsets(Map.of(partition, 0L));
        OffsetRange[] ranges = {new OffsetRange(0, 0, records, 1)};
        return new BlockReader(settings, ranges, new BlockReader.Shape(mostRecords, "UTC", false));
    }

    /** Of each row how many records are in the row's block; 0 = null. */
    private static List<Integer> blocks(BlockReader reader) throws IOException {
        List<Integer> found = new ArrayList<>();
        try (reader) {
            while (reader.next()) {
                found.add(reader.get().isNullAt(0) ? 0 : records(reader.get().getBinary(0)));
            }
        }
        return found;
    }

    private static int records(byte[] block) throws IOException {
        try (RootAllocator allocator = new RootAllocator();
                ArrowStreamReader batches = new ArrowStreamReader(new ByteArrayInputStream(block), allocator)) {
            batches.loadNextBatch();
            return batches.getVectorSchemaRoot().getRowCount();
        }
    }

    @Test
    void aBlockEndsWithTheRecordsThatTheSessionAllows() throws IOException {
        assertEquals(List.of(0, 0, 3, 0, 0, 3, 1), blocks(reader(7, 10, 3)));
    }

    @Test
    void aBlockOfLargeRecordsEndsBefore() throws IOException {
        assertEquals(List.of(0, 2, 0, 2, 1), blocks(reader(5, 150_000, 10_000)));
    }

    @Test
    void headersCountToo() throws IOException {
        assertEquals(List.of(0, 2, 0, 2, 1), blocks(reader(5, null, new byte[150_000], 10_000)));
    }

    @Test
    void noRecordsAreNoBlock() throws IOException {
        assertEquals(List.of(), blocks(reader(0, 10, 3)));
    }

    @Test
    void aTaskThatEndsInTheMidstLeavesNoMemory() throws IOException {
        try (BlockReader reader = reader(5, 1000, 3)) {
            reader.next(); // the end of the block raises an error where memory is left
        }
    }
}
