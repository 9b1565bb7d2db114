"""The registry of consumers for tasks: at times unreadable, or with an empty or old list."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from coordinator_tasks.core.errors import DiscoveryUnavailable
from coordinator_tasks.core.model import Member
from coordinator_tasks.core.ports import Discovery, Watcher
from tests.simulation.faults import Fault
from tests.simulation.kernel import Kernel

KEPT = 4  # lists that may come back


@dataclass
class Registry:
    """State shared by all tasks. `mood` lasts until `until`; `on_hidden` gets hidden registrations.

    `missed`: by reader, the addresses registered after the begin of the last read.
    """

    kernel: Kernel
    on_effect: Callable[[Fault], None]
    on_hidden: Callable[[Member], None]
    mood: Fault | None = None
    until: float = 0.0
    missed: dict[str, set[str]] = field(default_factory=dict)
    _past: list[Mapping[str, Member]] = field(default_factory=list)
    _old: Mapping[str, Member] = field(default_factory=dict)

    def fails(self, mood: Fault, seconds: float, which: int) -> None:
        """Fail for these seconds; `which` chooses an older list."""
        self.mood, self.until = mood, self.kernel.now + seconds
        self._old = self._past[which % len(self._past)] if self._past else {}

    def show(self, members: Mapping[str, Member]) -> Mapping[str, Member]:
        """Return the list shown to a task instead of the present list."""
        if self.mood is None or self.kernel.now >= self.until:
            if not self._past or self._past[-1] != members:
                self._past = [*self._past[1 - KEPT :], members]
            return members
        if self.mood is Fault.REGISTRY_UNREADABLE:
            self.on_effect(self.mood)
            raise DiscoveryUnavailable("the registry of consumers does not answer")
        shown = self._old if self.mood is Fault.REGISTRY_OLD else {}
        if shown != members:
            self.on_effect(self.mood)
        for name, member in members.items():
            if name not in shown or shown[name].incarnation != member.incarnation:
                self.on_hidden(member)
        return shown


@dataclass(frozen=True)
class Listed:
    """`ports.Discovery` of a task."""

    registry: Registry
    real: Discovery

    def members(self) -> Mapping[str, Member]:
        self.registry.missed[self.registry.kernel.who()] = set()
        return self.registry.show(self.real.members())

    def watch(self, watcher: Watcher) -> None:
        self.real.watch(watcher)
