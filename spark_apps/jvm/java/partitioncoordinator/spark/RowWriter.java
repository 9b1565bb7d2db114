package partitioncoordinator.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Shows records as rows: the columns of Spark's Kafka source, and the holding under which a record was read.
 *
 * <p>A row refers to its record's bytes. A copy here would be a second one, because Spark's plan begins with a
 * projection. One row object serves all records, as with Spark's own readers.
 */
final class RowWriter {
    private static final Logger LOG = LoggerFactory.getLogger(RowWriter.class);
    private static final long DAY_MS = 86_400_000L;
    // Python's first and last datetime, less a day for time zones. A producer may send any number as a time.
    private static final long FIRST_MS = -62_135_596_800_000L + DAY_MS;
    private static final long LAST_MS = 253_402_300_799_999L - DAY_MS;

    private final boolean headers;
    private final int assignment; // index of the first column of the assignment; 0 = no such columns
    private final UTF8String topic;
    private final Object[] columns;
    private final InternalRow row;
    private boolean warned;

    RowWriter(ReadSettings settings) {
        headers = settings.includeHeaders();
        assignment = settings.includeAssignment() ? (headers ? 8 : 7) : 0;
        topic = UTF8String.fromString(settings.topic());
        columns = new Object[(headers ? 8 : 7) + (assignment > 0 ? 3 : 0)];
        columns[2] = topic;
        if (assignment > 0) {
            columns[assignment] = UTF8String.fromString(settings.consumer());
            columns[assignment + 1] = settings.incarnation();
        }
        row = new GenericInternalRow(columns);
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
        columns[0] = record.key();
        columns[1] = record.value();
        columns[3] = record.partition();
        columns[4] = record.offset();
        columns[5] = time(record);
        columns[6] = record.timestampType().id;
        if (headers) {
            columns[7] = headers(record.headers().toArray());
        }
        if (assignment > 0) {
            columns[assignment + 2] = epoch;
        }
    }

    InternalRow row() {
        return row;
    }

    /** Microseconds, or null. */
    private Long time(ConsumerRecord<byte[], byte[]> record) {
        long time = record.timestamp();
        if (time >= FIRST_MS && time <= LAST_MS) {
            return time * 1000;
        }
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
        return null;
    }

    private static ArrayData headers(Header[] all) {
        if (all.length == 0) {
            return null; // as Spark's source: null, not an empty list
        }
        Object[] pairs = new Object[all.length];
        for (int place = 0; place < all.length; place++) {
            Object[] pair = {UTF8String.fromString(all[place].key()), all[place].value()};
            pairs[place] = new GenericInternalRow(pair);
        }
        return new GenericArrayData(pairs);
    }
}
