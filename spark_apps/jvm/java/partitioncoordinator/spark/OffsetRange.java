package partitioncoordinator.spark;

import java.io.Serializable;

/** Offsets {@code start} to before {@code end} of a partition, read under the holding of the token's {@code epoch}. */
record OffsetRange(int partition, long start, long end, long epoch) implements Serializable {}
