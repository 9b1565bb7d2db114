"""The strategy `weighted`: partitions by load, members by capacity."""
