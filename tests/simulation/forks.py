"""Changed product code, with tests in forks of a process after all imports and the collection of tests.

A change is brought into the living functions, so nothing is imported or collected anew, and only tests of a changed
function are run. Code that runs once, at the import of a module, cannot be changed this way.
"""

import gc
import hashlib
import importlib
import inspect
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from math import ceil
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, TypeVar

import pytest
from hypothesis import Phase, settings

ROOT = Path(__file__).parents[2]
REACH = ROOT / "build" / "reach.json"
PRODUCT = ("coordinator_tasks", "spark_apps")
CHANGED = ("coordinator_tasks/core", "coordinator_tasks/service", "coordinator_tasks/adapters", "spark_apps/agent")
ENDLESS, BROKEN = 255, 254
CPU_S = 150
WALL_S = 600
MEASURING_S = 3600  # all tests together, each traced
AROUND_S = 0.01  # overhead of a test
MANY_TIMES = 5  # multiple of a test's usual time after which the test counts as endless
T = TypeVar("T")
_QUIETLY = ("-q", "-s", "-p", "no:cacheprovider", "--assert=plain", "--tb=no")  # the reason of a failure is not read
_FOLDERS = tuple(str(ROOT / folder) for folder in PRODUCT)
_MEASURED_IN = (*PRODUCT, "tests/world", "tests/fakes")


class AtImport(Exception):
    """The change is in code that runs at a module's import."""


def place(code: CodeType) -> str:
    """A function's name in this module: file and line."""
    return f"{Path(code.co_filename).relative_to(ROOT)}:{code.co_firstlineno}:{code.co_name}"


@dataclass(frozen=True)
class Change:
    """Functions before and after the change."""

    pairs: tuple[tuple[CodeType, CodeType], ...]

    @classmethod
    def of(cls, file: str, before: CodeType, after: CodeType) -> "Change":
        """Between two compilations of a file; raises `AtImport`."""
        pairs = tuple(_different(before, after))
        if not pairs:
            raise AtImport(f"nothing in {file} is different")
        return cls(pairs)

    @property
    def places(self) -> set[str]:
        return {place(before) for pair in self.pairs for before, _ in (pair, *_inner(*pair))}

    def apply(self) -> None:
        """Apply for good; raises `AtImport` where the function does not exist."""
        for before, after in self.pairs:
            found = _living().get(_key(before), [])
            if not found:
                raise AtImport(f"{place(before)} is gone after the import")
            for function in found:
                function.__code__ = after
            for inner, changed in _inner(before, after):
                for function in _living().get(_key(inner), []):
                    function.__code__ = changed


def _key(code: CodeType) -> tuple[str, int, str]:
    return code.co_filename, code.co_firstlineno, code.co_qualname


@lru_cache(1)
def _living() -> dict[tuple[str, int, str], list[FunctionType]]:
    """The product's functions, once everything is imported."""
    for path in sorted(path for folder in CHANGED for path in (ROOT / folder).rglob("*.py")):
        importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    gc.unfreeze()  # objects from before the collection of tests are frozen, and would not be listed
    found: dict[tuple[str, int, str], list[FunctionType]] = {}
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename.startswith(_FOLDERS):
            found.setdefault(_key(one.__code__), []).append(one)
    return found


def _different(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield the outermost different functions."""
    if before == after:
        return
    if before.co_flags & inspect.CO_OPTIMIZED:
        yield before, after
        return
    if _without_inner(before) != _without_inner(after):
        raise AtImport(place(before))
    for one, other in zip(before.co_consts, after.co_consts, strict=True):
        if isinstance(one, CodeType) and isinstance(other, CodeType):
            yield from _different(one, other)
        elif one != other:
            raise AtImport(place(before))


def _inner(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield the different functions within a function: functions made by an import live on unchanged."""
    olds, news = ([one for one in code.co_consts if isinstance(one, CodeType)] for code in (before, after))
    for old in olds:
        # two functions in the same line have the same name
        same = [one for one in (*olds, *news) if _key(one) == _key(old)]
        if len(same) == 2 and old != same[1] and old.co_freevars == same[1].co_freevars:
            yield old, same[1]
            yield from _inner(old, same[1])


def _without_inner(code: CodeType) -> CodeType:
    """Return the code without constants, and without the columns of functions' ends."""
    return code.replace(co_consts=(), co_linetable=b"")


@dataclass
class Tests:
    """All collected tests, with seconds and covered functions.

    All forks know the number of each test's failures: tests that noticed other changes run first.
    """

    session: pytest.Session
    items: dict[str, pytest.Item]
    seconds: dict[str, float] = field(default_factory=dict)
    reach: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._failed = RawArray("i", len(self.items))
        self._number = {name: number for number, name in enumerate(self.items)}

    def running(self, places: Collection[str]) -> list[pytest.Item]:
        """Return the measured tests of these functions, the likeliest to fail soon first."""
        wanted = set(places)
        found = [name for name, ran in self.reach.items() if ran & wanted]
        return [self.items[name] for name in sorted(found, key=self._cost)]

    def _cost(self, name: str) -> tuple[float, str]:
        return (AROUND_S + self.seconds[name]) / (1 + self._failed[self._number[name]]), name

    def fail(self, items: list[pytest.Item]) -> bool:
        """Return whether any of these tests fails."""
        for item, following in pairwise([*items, None]):
            assert item is not None
            expected_s = self.seconds.get(item.nodeid)
            if expected_s is not None:
                _end_after(time.process_time() + 3 + MANY_TIMES * expected_s)
            # An endless wait uses no processor time; an unmeasured test has its process's time.
            limit_s = 0 if expected_s is None else ceil(30 + 4 * MANY_TIMES * expected_s)
            item.add_marker(pytest.mark.timeout(limit_s), append=False)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self.session.testsfailed:
                self._failed[self._number[item.nodeid]] += 1
                return True
        _end_after(CPU_S)
        return False


class _Instead:
    """A plugin of pytest: collected tests are handed over instead of being run."""

    def __init__(self, work: Callable[[Tests], int]) -> None:
        self.work = work
        self.result = 2

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for item in session.items:
            _once_is_enough(item)
        tests = Tests(session, {item.nodeid: item for item in session.items})
        _measure(tests, session.items)
        _living()
        gc.collect()
        gc.freeze()  # present objects are not examined again in every fork
        self.result = self.work(tests)
        return True


def _once_is_enough(item: pytest.Item) -> None:
    """Stop Hypothesis at the first failing example, without looking for a smaller one."""
    enough = {"phases": (Phase.explicit, Phase.generate), "report_multiple_bugs": False, "database": None}
    test = getattr(item, "obj", None)
    own = getattr(test, "_hypothesis_internal_use_settings", None)
    if own is not None:
        getattr(test, "__func__", test)._hypothesis_internal_use_settings = settings(own, **enough)


def with_tests(files: Collection[str], work: Callable[[Tests], int]) -> int:
    """Collect these files and do `work`, without writes to the tree; the functions run by each test are found out."""
    with tempfile.TemporaryDirectory(prefix="forks-") as folder:
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = folder
        instead = _Instead(work)
        options = (*_QUIETLY, f"--basetemp={folder}/pytest", f"--rootdir={ROOT}")
        os.chdir(ROOT)
        pytest.main([*options, *files], plugins=[instead])
        return instead.result


def each(
    jobs: Iterable[T],
    do: Callable[[T], int],
    done: Callable[[T, int], None],
    *,
    limit_s: float,
    each_s: float = WALL_S,
) -> None:
    """`do` every job in a separate fork, for at most `each_s`; `done` gets its number; no job begins after `limit_s`.

    The number is `ENDLESS` without an end, and `BROKEN` after an exception.
    """
    until, running, workers = time.monotonic() + limit_s, dict[int, tuple[T, float]](), os.cpu_count() or 1
    waiting = iter(jobs)
    more = True
    while more or running:
        while more and len(running) < workers:
            job = next(waiting, None) if time.monotonic() < until else None
            more = job is not None
            if job is not None:
                running[_forked(do, job)] = job, time.monotonic() + each_s
        time.sleep(0.02)
        for pid, (job, late_at) in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended and time.monotonic() < late_at:
                continue
            if not ended:
                os.kill(pid, signal.SIGKILL)
                _, status = os.waitpid(pid, 0)
            del running[pid]
            done(job, os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else ENDLESS)


def keep(path: Path, known: object) -> None:
    """Write the present knowledge: as a whole, even if interrupted."""
    path.parent.mkdir(exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(known, indent=1))
    partial.replace(path)


def never_end() -> None:
    """Take away this process's limit of processor time."""
    resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def _end_after(cpu_s: float) -> None:
    """Let this process end after these seconds of processor time, or `CPU_S`."""
    resource.setrlimit(resource.RLIMIT_CPU, (min(CPU_S, ceil(cpu_s)), resource.RLIM_INFINITY))


def _forked(do: Callable[[T], int], job: T) -> int:
    pid = os.fork()
    if pid:
        return pid
    result = BROKEN
    try:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        _end_after(CPU_S)
        result = do(job)
    finally:
        os._exit(result)


# Coverage ----------------------------------------------------------------------------------------------------------


def _measure(tests: Tests, items: list[pytest.Item]) -> None:
    """Find out the product's functions run by each test; stored knowledge of the unchanged product is reused."""
    product = _digest(path for folder in _MEASURED_IN for path in sorted((ROOT / folder).rglob("*.py")))
    files = {_file(item): _digest([ROOT / _file(item)]) for item in items}
    known = json.loads(REACH.read_text()) if REACH.exists() else {}
    if known.get("product") != product:
        known = {"product": product, "files": {}, "places": [], "seconds": {}, "reach": {}}
    fresh = [item for item in items if known["files"].get(_file(item)) != files[_file(item)]]
    if fresh:
        print(f"finding out which of {len(fresh)} tests runs what", flush=True)
        known["files"] = files

        def measure(_: int) -> int:
            return _watched(tests.session, fresh, known)

        each([0], measure, lambda *_: None, limit_s=1, each_s=MEASURING_S)
        known = json.loads(REACH.read_text()) if REACH.exists() else {}
    if not files.items() <= known.get("files", {}).items():
        raise SystemExit("the tests did not come to an end")
    tests.seconds = known["seconds"]
    tests.reach = {n: {known["places"][at] for at in ran} for n, ran in known["reach"].items() if n in tests.items}
    for item in items:
        if item.nodeid not in tests.reach:
            print(f"not asked, because it fails on the tree as it is: {item.nodeid}")


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _watched(session: pytest.Session, items: list[pytest.Item], known: dict[str, Any]) -> int:
    """Add the covered functions of these tests to the knowledge."""
    resource.setrlimit(resource.RLIMIT_CPU, (MEASURING_S, resource.RLIM_INFINITY))
    places = {name: number for number, name in enumerate(known["places"])}
    reach, seconds = known["reach"], known["seconds"]
    numbers: dict[int, int] = {}

    def called(frame: FrameType, _event: str, _arg: object) -> None:
        code = frame.f_code
        number = numbers.get(id(code))
        if number is None:
            mine = code.co_filename.startswith(_FOLDERS)
            number = numbers[id(code)] = places.setdefault(place(code), len(places)) if mine else -1
        ran.add(number)

    for item, following in pairwise([*items, None]):
        assert item is not None
        ran: set[int] = set()
        began = time.process_time()
        sys.settrace(called)
        threading.settrace(called)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        if session.testsfailed:
            session.testsfailed = 0
            reach.pop(item.nodeid, None)
            continue
        seconds[item.nodeid] = round(time.process_time() - began, 3)
        reach[item.nodeid] = sorted(ran - {-1})
    known["places"] = list(places)
    keep(REACH, known)
    return 0


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()
