package partitioncoordinator.spark;

import java.io.Serializable;

/**
 * Offsets {@code start} (inclusive) to {@code end} (exclusive) of a partition, read under the token's {@code epoch}.
 */
record OffsetRange(int partition, long start, long end, long epoch) implements Serializable {}
