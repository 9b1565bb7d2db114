"""The consumers' interfaces for tasks: requests stop before arriving and before returning."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from math import inf

from coordinator_tasks.core.model import Answer, ConsumerStatus, Member, Silence, Unreachable
from tests.simulation.faults import Fault
from tests.simulation.kernel import Kernel

Call = Callable[[], ConsumerStatus]


class Listener:
    """A listener at an address, answering while `mood` is empty and the process runs.

    `unheard_at`: last unanswered request, `hidden_at`: when the registry last hid the listener from a task, both in the
    kernel's time.
    """

    def __init__(self, status: Call, posted: Callable[[str, bytes], bool], running: Callable[[], bool]) -> None:
        self.status = status
        self.posted = posted
        self.running = running
        self.mood: Fault | None = None
        self.unasked = False  # while silent: a bound of the look leaves the consumer out
        self.unheard_at = -inf
        self.hidden_at = -inf
        self.closed = False


@dataclass
class Interfaces:
    """`ports.StatusClient` of all tasks; `listeners` by address. An unknown address refuses.

    `heard`: by asker, the answering addresses of the last request; `leaving`: the answering addresses with a reported
    leave.
    """

    kernel: Kernel
    listeners: dict[str, Listener]
    on_effect: Callable[[Fault], None]
    heard: dict[str, set[str]] = field(default_factory=dict)
    leaving: dict[str, set[str]] = field(default_factory=dict)

    def ask(self, members: Collection[Member], known: Mapping[str, int] | None = None) -> Mapping[str, Answer]:
        found: dict[str, Answer] = {}
        delayed = False
        heard = self.heard[self.kernel.who()] = set()
        leaving = self.leaving[self.kernel.who()] = set()
        for member in members:
            fault = self.kernel.io("http.ask")
            found[member.consumer] = answer = self._answer(member)
            if isinstance(answer, ConsumerStatus):
                heard.add(member.address)
                if answer.leaves:
                    leaving.add(member.address)
            delayed = delayed or fault == Fault.ANSWER_DELAYED
        if delayed:
            # The answer is old on arrival; the asker waits.
            self.on_effect(Fault.ANSWER_DELAYED)
            self.kernel.sleep(1.5)
        return found

    def _answer(self, member: Member) -> Answer:
        listener = self.listeners.get(member.address)
        if listener is None or listener.closed:
            return Unreachable(Silence.REFUSED, "connection refused")
        if listener.mood is not None or not listener.running():
            listener.unheard_at = self.kernel.now
        if listener.mood is not None:
            self.on_effect(listener.mood)
        if listener.mood is Fault.REFUSED:
            return Unreachable(Silence.REFUSED, "connection refused")
        if listener.mood is not None and listener.unasked:
            return Unreachable(Silence.UNASKED, "not asked")
        if listener.mood is not None or not listener.running():
            return Unreachable(Silence.SILENT, "no answer within 2 s")
        status = listener.status()
        if status.incarnation != member.incarnation:
            return Unreachable(Silence.FOREIGN, "another incarnation answers there")
        return status

    def unreachable(self, members: Collection[Member]) -> Mapping[str, Unreachable]:
        return {consumer: one for consumer, one in self.ask(members).items() if isinstance(one, Unreachable)}

    def post_topic(self, member: Member, topic: str, node: bytes) -> bool:
        self.kernel.io("http.post")
        listener = self.listeners.get(member.address)
        if listener is None or listener.closed or listener.mood is not None or not listener.running():
            return False
        return listener.posted(topic, node)
