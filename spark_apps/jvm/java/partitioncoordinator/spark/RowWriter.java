package partitioncoordinator.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeArrayWriter;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Writes records as rows: the columns of Spark's Kafka source, with the holding under which a record was read. */
final class RowWriter {
    private static final Logger LOG = LoggerFactory.getLogger(RowWriter.class);
    private static final long DAY_MS = 86_400_000L;
    // Python's first and last datetime, less a day for time zones: a producer may send any number as a time.
    private static final long FIRST_MS = -62_135_596_800_000L + DAY_MS;
    private static final long LAST_MS = 253_402_300_799_999L - DAY_MS;

    private final UnsafeRowWriter row;
    private final boolean headers;
    private final int assignment; // the first of the assignment's columns; 0 = none
    private final UTF8String topic;
    private final UTF8String consumer;
    private final long incarnation;
    private boolean warned;

    RowWriter(ReadSettings settings) {
        headers = settings.includeHeaders();
        assignment = settings.includeAssignment() ? (headers ? 8 : 7) : 0;
        row = new UnsafeRowWriter((headers ? 8 : 7) + (assignment > 0 ? 3 : 0), 256);
        topic = UTF8String.fromString(settings.topic());
        consumer = UTF8String.fromString(settings.consumer());
        incarnation = settings.incarnation();
    }

    static StructType schema(boolean includeHeaders, boolean includeAssignment) {
        List<StructField> fields = new ArrayList<>();
        fields.add(field("key", DataTypes.BinaryType));
        fields.add(field("value", DataTypes.BinaryType));
        fields.add(field("topic", DataTypes.StringType));
        fields.add(field("partition", DataTypes.IntegerType));
        fields.add(field("offset", DataTypes.LongType));
        fields.add(field("timestamp", DataTypes.TimestampType));
        fields.add(field("timestampType", DataTypes.IntegerType));
        if (includeHeaders) {
            StructField[] header = {field("key", DataTypes.StringType), field("value", DataTypes.BinaryType)};
            fields.add(field("headers", new ArrayType(new StructType(header), true)));
        }
        if (includeAssignment) {
            fields.add(field("consumer", DataTypes.StringType));
            fields.add(field("incarnation", DataTypes.LongType));
            fields.add(field("epoch", DataTypes.LongType));
        }
        return new StructType(fields.toArray(new StructField[0]));
    }

    private static StructField field(String name, org.apache.spark.sql.types.DataType type) {
        return DataTypes.createStructField(name, type, true);
    }

    void write(ConsumerRecord<byte[], byte[]> record, long epoch) {
        row.reset();
        row.zeroOutNullBytes();
        writeBytes(row, 0, record.key());
        writeBytes(row, 1, record.value());
        row.write(2, topic);
        row.write(3, record.partition());
        row.write(4, record.offset());
        writeTime(record);
        row.write(6, record.timestampType().id);
        if (headers) {
            writeHeaders(record.headers().toArray());
        }
        if (assignment > 0) {
            row.write(assignment, consumer);
            row.write(assignment + 1, incarnation);
            row.write(assignment + 2, epoch);
        }
    }

    InternalRow row() {
        return row.getRow();
    }

    private void writeTime(ConsumerRecord<byte[], byte[]> record) {
        long time = record.timestamp();
        if (time >= FIRST_MS && time <= LAST_MS) {
            row.write(5, time * 1000);
            return;
        }
        row.setNullAt(5);
        if (!warned) {
            warned = true;
            LOG.warn(
                    "topic {}: times of records are no milliseconds since 1970 of the years 1 to 9999, so their"
                            + " timestamps are null; the first record is partition {}, offset {}: {}",
                    topic,
                    record.partition(),
                    record.offset(),
                    time);
        }
    }

    private void writeHeaders(Header[] all) {
        if (all.length == 0) {
            row.setNullAt(7); // as Spark's source: null, not an empty list
            return;
        }
        int before = row.cursor();
        UnsafeArrayWriter list = new UnsafeArrayWriter(row, 8);
        list.initialize(all.length);
        UnsafeRowWriter pair = new UnsafeRowWriter(list, 2);
        for (int place = 0; place < all.length; place++) {
            int start = list.cursor();
            pair.resetRowWriter();
            pair.write(0, UTF8String.fromString(all[place].key()));
            writeBytes(pair, 1, all[place].value());
            list.setOffsetAndSizeFromPreviousCursor(place, start);
        }
        row.setOffsetAndSizeFromPreviousCursor(7, before);
    }

    private static void writeBytes(UnsafeRowWriter writer, int place, byte[] bytes) {
        if (bytes == null) {
            writer.setNullAt(place);
        } else {
            writer.write(place, bytes);
        }
    }
}
