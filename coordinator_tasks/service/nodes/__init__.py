"""What the coordinator keeps in ZooKeeper: each kind of node with its reads and guarded writes."""
