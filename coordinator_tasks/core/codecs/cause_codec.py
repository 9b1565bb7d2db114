"""The JSON of causes, in a topic's state and in the history."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from coordinator_tasks.core.codecs import kinds
from coordinator_tasks.core.codecs.former import former_causes
from coordinator_tasks.core.codecs.shape import FieldKind, Item, Shape
from coordinator_tasks.core.model import Cause, CauseKind, Ending

_CAUSE = Shape(
    Cause,
    Item("kind", kinds.choice(CauseKind)),
    Item("names", kinds.TEXTS, (), sparse=True),
    Item("partitions", kinds.RANGES, (), sparse=True),
    Item("by", kinds.TEXT, "", sparse=True),
    Item("why", kinds.TEXT, "", sparse=True),
    Item("ending", kinds.optional(kinds.choice(Ending)), None, sparse=True),
    Item("amount", kinds.REAL, 0.0, sparse=True),
)
T = TypeVar("T")


def _write(causes: Sequence[Cause]) -> list[dict[str, Any]]:
    typed = any(one.kind is not CauseKind.TOLD for one in causes)  # `cause` is enough for sentences
    return [_CAUSE.write(one) for one in causes] if typed else []


CAUSES = Item("causes", FieldKind(_CAUSE.listed.read, _write), None, sparse=True)


def with_former_causes(made: Callable[..., T]) -> Callable[..., T]:
    """Adapt `made` to a record whose cause may be only a sentence."""

    def read(*, cause: str, causes: tuple[Cause, ...] | None, **more: Any) -> T:
        return made(cause=cause, causes=former_causes(cause) if causes is None else causes, **more)

    return read
