"""The Mermaid diagram of the state machine, made from `table.TRANSITIONS`: `python -m tests.state_diagram` prints it."""

import sys

from coordinator_tasks.core.machine.table import TRANSITIONS, Signal
from coordinator_tasks.core.model import State


def mermaid() -> str:
    """One arrow for each pair of states, with all signals that lead from one to the other, in the table's order."""
    edges: dict[tuple[State, State], list[Signal]] = {}
    for source, signals in TRANSITIONS.items():
        for signal, target in signals.items():
            edges.setdefault((source, target), []).append(signal)
    # A colon would end the label.
    lines = [
        f"    {source} --> {target}: {'<br/>'.join(signal.value.replace(':', ' –') for signal in signals)}"
        for (source, target), signals in edges.items()
    ]
    return "\n".join(["stateDiagram-v2", "    direction LR", f"    [*] --> {State.INITIAL}", *lines]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(mermaid())
