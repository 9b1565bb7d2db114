"""Which partitions a consumer owns, and how far each of them is read and committed."""
