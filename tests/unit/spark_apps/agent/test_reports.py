"""The sentences of a consumer's reports."""

from spark_apps.agent.reports import Reports


def test_what_is_said_of_each_partition_is_said_once_of_all() -> None:
    reports = Reports()
    for partition in range(12):
        reports.add(partition, " stopped: its topic was recreated", partition=partition)
    reports.add("sink", "the sink is away")
    reports.add("behind", ": it is behind", partition=3)
    for partition in (17, 15):
        reports.add(partition, " was taken by b", partition=partition, several=" were taken by b")
    assert reports.all()[11:14] == (
        "partition 11 stopped: its topic was recreated",
        "the sink is away",
        "partition 3: it is behind",
    )
    assert reports.merged() == (
        "partitions 0-11 stopped: its topic was recreated",
        "the sink is away",
        "partition 3: it is behind",
        "partitions 15,17 were taken by b",
    )
