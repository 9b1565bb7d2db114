"""The data API's JSON: the content of the pages, for programs. Pure. docs/data-api.md describes it."""

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator_tasks.core.codecs.history_codec import ACTOR, UNMOVED
from coordinator_tasks.core.measure.pauses import longest
from coordinator_tasks.core.model import Pause
from coordinator_tasks.core.text import cause_text
from coordinator_tasks.service.watch.consumer_pages import ConsumerPages
from coordinator_ui.data.rebalance_search import Sides
from coordinator_ui.data.timeline import TaskSpan
from coordinator_ui.texts import words
from coordinator_ui.texts.rebalance_text import Story


def rebalance_row(cluster: str, story: Story) -> dict[str, Any]:
    """Return a rebalance as a row of a list."""
    pauses = story.pauses
    worst = longest(pauses.measured) if pauses is not None else None
    return {
        "cluster": cluster,
        "topic": story.topic,
        "rebalance": story.rebalance,
        "began": story.began_at,
        "ended": story.ended_at or None,
        "seconds": story.lasted_s,
        "headline": story.headline,
        "causes": [cause_text.said(one) for one in story.causes],
        "actors": [ACTOR.write(one) for one in story.runs],
        "longest_pause": None if worst is None else worst.total.least_s,
        "longest_extra": None if worst is None or worst.extra is None else worst.extra.least_s,
        "records_waited": sum(one.records for one in pauses.measured) if pauses is not None else None,
    }


def rebalance_whole(
    cluster: str, story: Story, sides: Sides, tasks: Sequence[TaskSpan], pages: Mapping[str, ConsumerPages]
) -> dict[str, Any]:
    """Return a rebalance with all known facts."""
    reasons = [
        {"epoch": step.record.epoch, "partitions": list(reason.partitions), "text": reason.text}
        for step in story.steps
        if step.record.plan is not None
        for reason in step.record.plan.moves
    ]
    unmoved = story.pauses.unmoved if story.pauses is not None else None
    return {
        **rebalance_row(cluster, story),
        "before": {owner: list(partitions) for owner, partitions in sides.before.items()},
        "after": {owner: list(partitions) for owner, partitions in sides.after.items()},
        "sides_problem": sides.problem,
        "moves": [
            {
                "partitions": list(row.partitions),
                "from": row.giver,
                "to": row.taker,
                "kind": row.kind.value,
                "cause": cause_text.said(row.causes),
                "planned": row.planned_at,
                "closed_after": row.closed_s,
                "started_after": row.started_s,
                "replaced": row.replaced,
            }
            for row in story.rows
        ],
        "reasons": reasons,
        "waits": [
            {
                "consumer": one.consumer,
                "for": one.verb,
                "partitions": list(one.partitions),
                "seconds": one.waited_s,
                "over": one.over,
            }
            for one in story.waits
        ],
        "pauses": [_pause(one) for one in story.pauses.measured] if story.pauses is not None else [],
        "not_measured": story.pauses.missing if story.pauses is not None else None,
        "unmoved": UNMOVED.write(unmoved) if unmoved is not None else None,
        "tasks": [
            {
                "run": one.actor.run,
                "task": one.actor.task,
                "try": one.actor.attempt,
                "begin": one.begin_at,
                "end": one.end_at or None,
                "state": one.state,
                "path": words.task_path(one.actor),
            }
            for one in tasks
        ],
        "consumers": [
            {
                "consumer": consumer,
                "incarnation": one.incarnation,
                "spark_ui": one.spark_ui,
                "driver_log": one.driver_log,
            }
            for consumer, one in pages.items()
        ],
    }


def _pause(one: Pause) -> dict[str, Any]:
    return {
        "partition": one.partition,
        "last": one.last_at,
        "released": one.released_at,
        "first": one.first_at,
        "records": one.records,
        "bytes": one.size,
        "wait": one.wait_s,
        "error": one.error_s,
        "at_least": one.least,
        "at_most": one.most_s,
        "usual": one.usual_s,
        "extra": one.extra.least_s if one.extra is not None else None,
    }
