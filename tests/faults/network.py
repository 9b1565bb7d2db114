"""Consumers and a coordinator on hosts of their own, whose packets to and from one neighbour or all are dropped for a while.

Each process is in a network namespace; nobody is refused anything, nobody hears anything.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from tests.faults.apart import CUTS, Apart, Cut, Healed
from tests.faults.netns import NoRights
from tests.faults.notes import Notes, Part, Turn, Wanted, figure
from tests.faults.site import Site, site

NETWORK = "network"
AT_ONCE = 4
LEFT_OUT = "not run here: needs rights on the network"


def _sit_out(made: Site, folder: Path, numbered: tuple[int, Cut]) -> tuple[Cut, Healed]:
    number, cut = numbered
    return cut, Apart(made.servers, f"{folder.name}-{number}", folder / str(number), site=made, cut=cut).sit_out()


def _run(turn: Turn) -> None:
    by_key = {f"{NETWORK}: {cut}": cut for cut in CUTS}
    due = turn.notes.due(by_key)
    if not due or turn.over():
        return
    lock = threading.Lock()

    def sit_out(numbered: tuple[int, Cut]) -> None:
        if turn.over():
            return
        cut, healed = _sit_out(made, turn.folder, numbered)
        with lock:
            turn.notes.add(NETWORK, f"{NETWORK}: {cut}", **asdict(healed))

    try:
        with site(turn.folder) as made, ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(sit_out, enumerate(by_key[key] for key in due)))
    except NoRights as error:
        turn.notes.add(NETWORK, LEFT_OUT, reason=str(error))


def _summary(notes: Notes, _: Wanted) -> str:
    lines = [one for one in notes.of(NETWORK) if one["key"] != LEFT_OUT]
    if not lines:
        return LEFT_OUT
    return (
        f"{len(lines)} of {len(CUTS)} cases; while they were cut off the victims processed "
        f"{sum(one.get('own', 0) for one in lines)} records and the others {sum(one.get('others', 0) for one in lines)}, the "
        f"longest pause of a partition whose owner was not cut off {figure(lines, 'pause_s'):.2f} s; Stable at most "
        f"{figure(lines, 'stable_s'):.1f} s after the healing, everything flowed after at most {figure(lines, 'flow_s'):.1f} s"
    )


PART = Part(NETWORK, _run, _summary)
