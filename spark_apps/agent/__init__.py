"""The consumer's agent: owned partitions, commits and status. Knows no Spark.

Packages: `process` (a consumer from registration to end), `zookeeper`, `interface`, `threads`, and `ownership` (owned
partitions, read and committed offsets). `ownership` has no threads and no real time, so the simulation runs the same
code. Calls in `ownership` go down this list, never up: `TopicOwnership`; `Requests` with `Schedule`, `Batches`,
`Listening`; `Grants`; `Releasing`; `Holdings` and `OwnedPartition`.

Threads: the main thread registers the consumer, reads and writes ZooKeeper, and leaves. Each topic has three threads:
`agent-[TOPIC]` sends all ownership requests to Kafka and the sink; `callbacks-[TOPIC]` runs the site's calls;
`spark-[TOPIC]` asks Spark for the query, so that a hanging JVM does not block the main thread. `agent-link` answers the
data source; `agent-status` serves the interface. A thread holds the topic's lock to change ownership, and never while
waiting for Kafka, ZooKeeper or the sink. ZooKeeper's callbacks only note a path and wake the main thread.

The main thread takes a step when a watch fires, or after a quarter of a second:

1. Check progress. A query that has ended or an owned partition without progress makes the consumer leave.
2. Register, if the session is new, and again every five seconds. If the registry stops answering later in the session,
   or the consumer's registration is unreadable, report the problem and continue.
3. Read the paths of fired watches. Once a second, read the directive, the topic names and the awaited releases. Poll
   topic nodes at 1 KB/s at most.
4. Hand each topic the topic's node, the releases and an isolation. The topic then acquires, closes or waits, and the
   topic's threads are woken.
5. Write the due releases by compare-and-set.
6. While leaving: mark the consumer as draining, wait for the hand-offs, stop the queries. Then write the end of the
   incarnation and of the registration in one transaction.

`agent-[TOPIC]` sends the first due request of this list: commits of closing partitions; a fetch of all committed
offsets (every 0.9 s, and before a commit if the last fetch is older than 2 s); other commits; the topic's id; a claim
in the sink; the bounds of the log, if no position is known; the log's end; once an hour, another commit of each idle
partition.
"""
