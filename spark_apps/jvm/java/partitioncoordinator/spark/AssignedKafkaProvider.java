package partitioncoordinator.spark;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The format {@code assigned-kafka}: a stream of the partitions that the coordinator assigns to this application. The
 * agent in the driver's Python process checks the options and plans the batches.
 */
public final class AssignedKafkaProvider implements TableProvider, DataSourceRegister {
    static final String FORMAT = "assigned-kafka";
    /** The option by which Python asks for blocks of records in place of rows; the agent does not know the option. */
    static final String BLOCKS = "partitioncoordinator.blocks";

    @Override
    public String shortName() {
        return FORMAT;
    }

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        try (Agent agent = Agent.connect()) {
            var checked = agent.ask("check", Map.of("options", withoutBlocks(options)));
            if (options.containsKey(BLOCKS)) {
                return BlockReader.SCHEMA;
            }
            return RowWriter.schema(
                    checked.get("include_headers").asBoolean(),
                    checked.get("include_assignment").asBoolean());
        }
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        return new AssignedTable(schema);
    }

    private static Map<String, String> withoutBlocks(CaseInsensitiveStringMap options) {
        Map<String, String> others = new HashMap<>(options.asCaseSensitiveMap());
        others.remove(BLOCKS);
        return others;
    }

    private record AssignedTable(StructType schema) implements SupportsRead {
        @Override
        public String name() {
            return FORMAT;
        }

        @Override
        public Set<TableCapability> capabilities() {
            return Set.of(TableCapability.MICRO_BATCH_READ, TableCapability.BATCH_READ); // batch: for our own error
        }

        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return () -> new AssignedScan(schema, withoutBlocks(options), options.containsKey(BLOCKS));
        }
    }

    private record AssignedScan(StructType readSchema, Map<String, String> options, boolean blocks) implements Scan {
        @Override
        public MicroBatchStream toMicroBatchStream(String checkpoint) {
            return new AssignedStream(options, blocks);
        }

        @Override
        public Batch toBatch() {
            throw new UnsupportedOperationException(FORMAT
                    + " reads a stream whose partitions come and go; use spark.readStream, or Spark's own format"
                    + " 'kafka' to read a topic once");
        }
    }
}
