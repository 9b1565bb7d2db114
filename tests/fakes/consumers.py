"""A registry and the consumers' interfaces in memory."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from coordinator_tasks.core.errors import DiscoveryUnavailable, IdInUse
from coordinator_tasks.core.model import Answer, Member, Silence, Unreachable
from coordinator_tasks.core.names import check_consumer
from coordinator_tasks.core.ports import Watcher
from coordinator_tasks.core.protocol.claims import in_use, same_process


@dataclass(slots=True)
class FakeDiscovery:
    """`ports.Discovery` and `ports.Registry`; with `down` every call fails."""

    down: bool = False
    registered: dict[str, Member] = field(default_factory=dict)
    _watchers: list[Watcher] = field(default_factory=list)

    def members(self) -> Mapping[str, Member]:
        self._answer()
        return dict(sorted(self.registered.items()))

    def watch(self, watcher: Watcher) -> None:
        self._answer()
        self._watchers.append(watcher)

    def register(self, member: Member) -> None:
        self._answer()
        live = self.registered.get(check_consumer(member.consumer))
        if live is not None and not same_process(live, member):
            raise IdInUse(in_use(live, member, 10.0))
        self.registered[member.consumer] = replace(member, registered_at=1.0)
        self._changed()

    def deregister(self, consumer: str, incarnation: int) -> None:
        self._answer()
        live = self.registered.get(consumer)
        if live is not None and live.incarnation == incarnation:
            del self.registered[consumer]
            self._changed()

    def _changed(self) -> None:
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher()

    def _answer(self) -> None:
        if self.down:
            raise DiscoveryUnavailable("the registry does not answer; check that it runs")


@dataclass(slots=True)
class FakeStatusClient:
    """`ports.StatusClient`: answers by consumer, given or made at the request; by default no consumer listens."""

    answers: dict[str, Answer | Callable[[Member], Answer]] = field(default_factory=dict)
    posted: list[tuple[str, str, bytes]] = field(default_factory=list)

    def ask(self, members: Collection[Member], known: Mapping[str, int] | None = None) -> Mapping[str, Answer]:
        return {member.consumer: self._answer(member) for member in members}

    def _answer(self, member: Member) -> Answer:
        if member.problem:
            return Unreachable(Silence.BROKEN, member.problem)
        answer = self.answers.get(member.consumer, Unreachable(Silence.REFUSED, f"{member.address} refuses"))
        return answer(member) if callable(answer) else answer

    def unreachable(self, members: Collection[Member]) -> Mapping[str, Unreachable]:
        return {consumer: one for consumer, one in self.ask(members).items() if isinstance(one, Unreachable)}

    def post_topic(self, member: Member, topic: str, node: bytes) -> bool:
        self.posted.append((member.consumer, topic, node))
        return True
