"""The partitions that a consumer owns, with read and committed offsets."""
