package partitioncoordinator.spark;

import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.channels.WritableByteChannel;
import java.util.List;
import java.util.stream.Stream;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.arrow.vector.types.TimeUnit;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.FieldType;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Passes records to a Python stage in blocks. A block is an Arrow stream of many records, in a single row.
 *
 * <p>Spark counts a source's rows as its records, so each record has a row. The row of a block's last record has the
 * block, and the rows of the other records are null.
 */
final class BlockReader implements PartitionReader<InternalRow> {
    static final StructType SCHEMA = new StructType().add("block", DataTypes.BinaryType);

    // Spark copies a block several times. A larger block does not fit into the processor's cache.
    private static final int MOST_BYTES = 1 << 18;
    // Maximum bytes of an Arrow stream besides the columns: schema, description of the batch, end; and of the gaps
    // between a column's buffers.
    private static final int STREAM_BYTES = 16 << 10;
    private static final int BUFFER_BYTES = 1 << 10;

    /** The session's settings for the batches of a Python stage. */
    record Shape(int mostRecords, String timeZone, boolean largeTypes) implements Serializable {
        static Shape ofSession() {
            SQLConf session = SQLConf.get();
            int most = session.arrowMaxRecordsPerBatch();
            return new Shape(
                    most > 0 ? most : Integer.MAX_VALUE,
                    session.sessionLocalTimeZone(),
                    session.arrowUseLargeVarTypes());
        }
    }

    private final RangesReader records;
    private final int mostRecords;
    private final BufferAllocator allocator = new RootAllocator();
    private final VectorSchemaRoot root;
    private final ArrowWriter writer;
    private final Object[] block = new Object[1];
    private final InternalRow row = new GenericInternalRow(block);
    private boolean begun;
    private boolean more;
    private int count;
    private long bytes;

    BlockReader(ReadSettings settings, OffsetRange[] ranges, Shape shape) {
        mostRecords = shape.mostRecords();
        StructType columns = RowWriter.schema(settings.includeHeaders(), settings.includeAssignment());
        root = VectorSchemaRoot.create(new Schema(fields(columns, shape).toList()), allocator);
        writer = ArrowWriter.create(root);
        records = new RangesReader(settings, ranges);
    }

    @Override
    public boolean next() throws IOException {
        more = begun ? more : records.next();
        begun = true;
        if (!more) {
            return false;
        }
        writer.write(records.get());
        count++;
        bytes += records.size();
        more = records.next();
        block[0] = more && count < mostRecords && bytes < MOST_BYTES ? null : takeBlock();
        return true;
    }

    @Override
    public InternalRow get() {
        return row;
    }

    @Override
    public void close() {
        try (allocator;
                root) {
            records.close();
        }
    }

    private byte[] takeBlock() throws IOException {
        writer.finish();
        int size = STREAM_BYTES;
        for (FieldVector column : root.getFieldVectors()) {
            size += column.getBufferSize() + BUFFER_BYTES;
        }
        Block stream = new Block(ByteBuffer.allocate(size));
        try (ArrowStreamWriter batches = new ArrowStreamWriter(root, null, stream)) {
            batches.writeBatch();
        }
        writer.reset();
        count = 0;
        bytes = 0;
        return stream.bytes.array(); // bytes after the stream's end mark are not read
    }

    /** Takes an Arrow stream without another copy. */
    private record Block(ByteBuffer bytes) implements WritableByteChannel {
        @Override
        public int write(ByteBuffer source) {
            int size = source.remaining();
            bytes.put(source);
            return size;
        }

        @Override
        public boolean isOpen() {
            return true;
        }

        @Override
        public void close() {
            // no resource is held
        }
    }

    private static Stream<Field> fields(StructType columns, Shape shape) {
        return Stream.of(columns.fields()).map(column -> field(column.name(), column.dataType(), shape));
    }

    /** Like Spark's own function, whose parameters differ between releases. */
    private static Field field(String name, DataType type, Shape shape) {
        ArrowType arrow;
        List<Field> children = List.of();
        if (type instanceof StructType columns) {
            arrow = new ArrowType.Struct();
            children = fields(columns, shape).toList();
        } else if (type instanceof ArrayType list) {
            arrow = new ArrowType.List();
            children = List.of(field("element", list.elementType(), shape));
        } else if (type.equals(DataTypes.TimestampType)) {
            arrow = new ArrowType.Timestamp(TimeUnit.MICROSECOND, shape.timeZone());
        } else if (type.equals(DataTypes.BinaryType)) {
            arrow = shape.largeTypes() ? new ArrowType.LargeBinary() : new ArrowType.Binary();
        } else if (type.equals(DataTypes.StringType)) {
            arrow = shape.largeTypes() ? new ArrowType.LargeUtf8() : new ArrowType.Utf8();
        } else {
            arrow = new ArrowType.Int(8 * type.defaultSize(), true);
        }
        return new Field(name, FieldType.nullable(arrow), children);
    }
}
