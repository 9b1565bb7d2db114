package partitioncoordinator.spark;

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

    @Override
    public String shortName() {
        return FORMAT;
    }

    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        try (Agent agent = Agent.connect()) {
            var checked = agent.ask("check", Map.of("options", options.asCaseSensitiveMap()));
            return RowWriter.schema(
                    checked.get("include_headers").asBoolean(),
                    checked.get("include_assignment").asBoolean());
        }
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        return new AssignedTable(schema);
    }

    private record AssignedTable(StructType schema) implements SupportsRead {
        @Override
        public String name() {
            return FORMAT;
        }

        @Override
        public Set<TableCapability> capabilities() {
            return Set.of(TableCapability.MICRO_BATCH_READ, TableCapability.BATCH_READ); // the second to refuse it
        }

        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return () -> new AssignedScan(schema, options.asCaseSensitiveMap());
        }
    }

    private record AssignedScan(StructType readSchema, Map<String, String> options) implements Scan {
        @Override
        public MicroBatchStream toMicroBatchStream(String checkpoint) {
            return new AssignedStream(options);
        }

        @Override
        public Batch toBatch() {
            throw new UnsupportedOperationException(FORMAT
                    + " reads a stream whose partitions come and go; use spark.readStream, or Spark's own format"
                    + " 'kafka' to read a topic once");
        }
    }
}
