"""The code decides by values: no sentence of ours is compared, cut or searched, so every sentence can be reworded."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
PARTS = ("coordinator_tasks", "plugins", "spark_apps", "dags")
SENTENCES = frozenset(
    {"cause", "detail", "health", "problem", "reason", "said", "says", "sentence", "summary", "told", "why"}
)
"""Names of variables, attributes and functions of sentences for a person."""
CUTS = frozenset(
    {
        *("endswith", "find", "findall", "fullmatch", "index", "match", "partition", "removeprefix", "removesuffix"),
        *("rfind", "rpartition", "rsplit", "search", "split", "splitlines", "startswith"),
    }
)
COMPARISONS = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
ALLOWED = frozenset(
    {
        # Texts of other programs and of a user's errors.
        "coordinator_tasks/adapters/server_versions.py",
        "coordinator_tasks/adapters/zookeeper_causes.py",
        "coordinator_tasks/devstack/demo/sink.py",
        "coordinator_tasks/tls_files.py",
        "plugins/coordinator_plugin/cluster_mode.py",
        "plugins/coordinator_plugin/launch.py",
        "spark_apps/agent/ownership/failing.py",
        "spark_apps/delivery/database.py",
        "spark_apps/spark/progress.py",
        "spark_apps/spark/topic_query.py",
        "spark_apps/spark/warm_up.py",
        "spark_apps/tracebacks.py",
        # Records and answers of earlier versions.
        "coordinator_tasks/core/codecs/former.py",
        # What was said last is not said again.
        "coordinator_tasks/cli/metrics.py",
        "coordinator_tasks/service/run/loop.py",
        "plugins/coordinator_plugin/watcher.py",
        "spark_apps/agent/process/consumer_process.py",
        "spark_apps/launch/launcher_service.py",
        # Layout: the remedy in an error's text is a column of its own.
        "coordinator_tasks/doctor/airflow.py",
        "coordinator_tasks/doctor/findings.py",
    }
)


def name_of(node: ast.expr) -> str:
    """The last name of an expression; the text of an error counts as `told`."""
    match node:
        case ast.Tuple(elts=parts):
            return next(filter(SENTENCES.__contains__, map(name_of, parts)), "")
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=ast.Name(id="str"), args=[argument]) if "error" in name_of(argument):
            return "told"
        case ast.Call(func=function):
            return name_of(function)
    return ""


def is_sentence(node: ast.expr) -> bool:
    return name_of(node) in SENTENCES


def reads(node: ast.AST) -> bool:
    """Whether a sentence is compared with anything but an empty text, cut or searched."""
    match node:
        case ast.Compare(left=left, ops=ops, comparators=others) if all(isinstance(op, COMPARISONS) for op in ops):
            sides = [left, *others]
            empty = any(isinstance(one, ast.Constant) and not one.value for one in sides)
            return not empty and any(map(is_sentence, sides))
        case ast.Call(func=ast.Attribute(value=value, attr=method), args=arguments) if method in CUTS:
            return is_sentence(value) or any(map(is_sentence, arguments))
    return False


def readers(source: str) -> list[str]:
    return [ast.unparse(node) for node in ast.walk(ast.parse(source)) if reads(node)]


def places() -> Iterator[tuple[str, list[str]]]:
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*.py")):
            if found := readers(path.read_text()):
                yield str(path.relative_to(ROOT)), found


def test_no_sentence_is_read() -> None:
    found = dict(places())
    assert {path: texts for path, texts in found.items() if path not in ALLOWED} == {}
    assert found.keys() >= ALLOWED, "a place that reads no sentence any more is allowed nothing"


def test_code_that_reads_a_sentence_is_detected() -> None:
    read = (
        'draining.why == "redeployment"',
        "(draining.by, draining.why) == (app, WHY)",
        "one.why in texts",
        'status.health.startswith("failed: ")',
        'str(error).rpartition("; ")',
        "_GONE.fullmatch(cause)",
        're.search("gone", record.cause)',
    )
    assert [readers(one) for one in read] == [[ast.unparse(ast.parse(one))] for one in read]
    assert readers('why != ""; text.split(","); kind is Kind.GONE; cause.kind == Kind.GONE') == []
