"""The coordinator's nodes in ZooKeeper: reads and guarded writes for each kind of node."""
