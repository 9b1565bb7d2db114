"""The phases of taking up a partition, and the events between them. Only these events change a phase.

`docs/architecture.md` draws this table, and a test compares the two. A partition may end in any phase
(`OwnedPartition.closing`).
"""

from collections.abc import Mapping
from enum import StrEnum


class Phase(StrEnum):
    """How far a take-up has come. A partition is read only in `READY`."""

    CLAIMING = "claiming"  # the sink keeps the positions, and has to take our token
    FETCHING = "fetching"  # the committed entry has to be read
    LISTING = "listing"  # no position is known: the log's bounds have to be read
    ASSIGNING = "assigning"  # the application's listener is told, and may choose another start
    STARTING = "starting"  # the start position has to be committed under the new token
    GUARDING = "guarding"  # the start commit has to stay unchanged for longer than the commit time-out
    READY = "ready"


class PhaseEvent(StrEnum):
    """Events that lead to the next phase. The diagram in the documentation has the same labels."""

    NOT_IN_SINK = "the sink has no position"
    NOT_COMMITTED = "nothing is committed or released"
    START_KNOWN = "the start is known"
    START_TO_TELL = "the start is known, and a listener wants to be told"
    TOLD = "the listener has answered"
    COMMITTED = "the start is committed"
    COMMITTED_GUARDED = "the start of a guarded partition is committed"
    UNDISTURBED = "the commit has stayed ours for guard_s"
    NOT_IN_LOG = "the log no longer has the position"
    SINK_FAILED = "the sink that keeps the position has failed"


_START = {PhaseEvent.START_KNOWN: Phase.STARTING, PhaseEvent.START_TO_TELL: Phase.ASSIGNING}

TRANSITIONS: Mapping[Phase, Mapping[PhaseEvent, Phase]] = {
    Phase.CLAIMING: {PhaseEvent.NOT_IN_SINK: Phase.FETCHING, **_START},
    Phase.FETCHING: {PhaseEvent.NOT_COMMITTED: Phase.LISTING, **_START},
    Phase.LISTING: _START,
    Phase.ASSIGNING: {PhaseEvent.TOLD: Phase.STARTING},
    Phase.STARTING: {**_START, PhaseEvent.COMMITTED: Phase.READY, PhaseEvent.COMMITTED_GUARDED: Phase.GUARDING},
    Phase.GUARDING: {PhaseEvent.UNDISTURBED: Phase.READY},
    Phase.READY: {PhaseEvent.NOT_IN_LOG: Phase.STARTING, PhaseEvent.SINK_FAILED: Phase.CLAIMING},
}
