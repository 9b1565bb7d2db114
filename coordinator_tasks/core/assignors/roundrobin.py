"""Kafka's `roundrobin`: all partitions of all topics in order, dealt in turn to the subscribed members."""

from coordinator_tasks.core.assignors.group import Assignment, Group, java_order, kafka_order


def round_robin(group: Group) -> Assignment:
    """Deal evenly for equal subscriptions, unevenly for mixed subscriptions.

    Takes O(partitions); with mixed subscriptions, times the number of members that are skipped.
    """
    answer: Assignment = {member: {} for member in group.members}
    order = kafka_order(group.members)
    turn = 0
    for topic in sorted(group.subscribers(), key=java_order):
        for partition in range(group.topics[topic]):
            while topic not in group.members[order[turn]].topics:
                turn = (turn + 1) % len(order)
            answer[order[turn]].setdefault(topic, []).append(partition)
            turn = (turn + 1) % len(order)
    return answer
