"""The output for a person: one line for each phase, and at a terminal a live table of the owners."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from coordinator_tasks.core.measure.pauses import amount, sentence
from coordinator_tasks.devstack.demo.checker import DemoVerdict
from coordinator_tasks.devstack.demo.report import EventReport, MoveStall

REFRESHES_PER_S = 8
PLAIN_WIDTH = 150
WHY_EXTRA = (
    "How long a partition stood still, by the sink's rows: total. A batch comes every half second, so a partition always stands "
    "still between two of them: usual, as measured in the undisturbed seconds before. Extra = total - usual is what the move has cost."
)


@dataclass(frozen=True, slots=True)
class DemoSnapshot:
    """The data in ZooKeeper and the sink at one moment.

    `owned`: consumer → partitions. `moving`: partition → (giver, taker). `processed`: consumer → number of rows.
    """

    state: str = "Initial"
    epoch: int = 0
    owned: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    moving: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    processed: Mapping[str, int] = field(default_factory=dict)


class Display:
    """Prints lines, and at a terminal a live table below the lines."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or _console()
        self._live: Live | None = None
        self._began_s = time.monotonic()
        self._snapshot = DemoSnapshot()
        self._doing = ""
        self._doing_since_s = self._began_s
        self.phases_s: dict[str, float] = {}

    def __enter__(self) -> "Display":
        if self._console.is_terminal:
            self._live = Live(
                console=self._console, refresh_per_second=REFRESHES_PER_S, get_renderable=self._table, transient=True
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def doing(self, phase: str) -> None:
        """Begin a phase. A terminal shows it above the table."""
        self._doing, self._doing_since_s = phase, time.monotonic()

    def passed(self) -> None:
        """End the phase without a line."""
        before_s = self.phases_s.get(self._doing, 0.0)
        self.phases_s[self._doing] = round(before_s + time.monotonic() - self._doing_since_s, 1)

    def done(self, sentence: str) -> None:
        """End the phase with a line for the result."""
        self.passed()
        self._console.print(f"[dim]{time.monotonic() - self._began_s:6.1f} s[/]  {escape(sentence)}")

    def line(self, text: str = "") -> None:
        """Print a line that ends no phase."""
        self._console.print(escape(text))

    def show(self, snapshot: DemoSnapshot) -> None:
        self._snapshot = snapshot

    def _table(self) -> Table:
        snapshot = self._snapshot
        title = f"{self._doing} · orders: {snapshot.state}, epoch {snapshot.epoch}"
        moving = ", ".join(f"{p}: {giver} -> {taker}" for p, (giver, taker) in sorted(snapshot.moving.items()))
        table = Table(title=title, title_justify="left", caption_justify="left", caption=moving)
        table.add_column("consumer")
        table.add_column("partitions", min_width=40)
        table.add_column("processed", justify="right")
        for consumer in sorted(snapshot.owned.keys() | snapshot.processed.keys()):
            partitions = " ".join(str(p) for p in snapshot.owned.get(consumer, ()))
            table.add_row(consumer, partitions or "[dim]none[/]", f"{snapshot.processed.get(consumer, 0):,}")
        return table

    def results(self, verdict: DemoVerdict, events: Sequence[EventReport]) -> None:
        self.line()
        self._console.print(_moves_table(events))
        self.line(WHY_EXTRA)
        for event in events:
            for text in _stall_lines(event):
                self.line(text)
            if event.pauses is not None:
                self.line(f"  the history says: {sentence(event.pauses)}")
        self.line()
        for check in verdict.checks:
            mark = "[green]ok    [/]" if check.ok else "[bold red]FAILED[/]"
            self._console.print(f"{mark}  {escape(check.name)} [dim]({escape(check.found)})[/]")
            for problem in check.problems:
                self._console.print(f"          {escape(problem)}")


def _console() -> Console:
    """Return a console. Without a terminal, its lines are plain and wide enough for the tables."""
    console = Console(highlight=False, soft_wrap=True)
    return console if console.is_terminal else Console(highlight=False, soft_wrap=True, width=PLAIN_WIDTH)


def _moves_table(events: Sequence[EventReport]) -> Table:
    table = Table(title="Moves", title_justify="left")
    for name in ("partition", "from", "to", "kind"):
        table.add_column(name, no_wrap=True)
    table.add_column("cause", max_width=60)  # on a narrow terminal the causes wrap, and names stay whole
    for name in ("extra ms", "total ms", "usual ms"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("total by the history", justify="right")
    for event in events:
        for move in event.moves:
            table.add_row(
                *(str(move.partition), move.giver, move.taker, move.kind, escape(move.cause)),
                *(f"{ms:.0f}" for ms in (move.extra_ms, move.total_ms, move.usual_ms)),
                _by_the_history(move),
            )
        table.add_section()
    return table


def _by_the_history(move: MoveStall) -> str:
    if move.pause is None or move.pause.total is None:
        return "–"
    return amount(move.pause.total, move.pause.error_s)


def _stall_lines(event: EventReport) -> tuple[str, ...]:
    return (
        f"{event.kind} of {event.consumer}: extra pause of {event.moved.partitions} moved partitions at most "
        f"{event.moved_extra.max_ms:.0f} ms (median {event.moved_extra.p50_ms:.0f}), of {event.unmoved.partitions} unmoved "
        f"{event.unmoved_extra.max_ms:.0f} ms (median {event.unmoved_extra.p50_ms:.0f})",
        f"  total of the moved at most {event.moved.max_ms:.0f} ms (median {event.moved.p50_ms:.0f}), usual "
        f"{event.quiet.max_ms:.0f} ms (median {event.quiet.p50_ms:.0f}); plan after {event.to_plan_s:.1f} s, Stable after "
        f"{event.to_stable_s:.1f} s",
    )
