"""A new field of the topic node or of the configuration: a test names each place without the field.

`codecs/test_codecs.py` tests reading and writing, with values that differ from the default in every field.
"""

from dataclasses import fields, replace

import pytest

from coordinator_tasks.core.machine.causes import digest
from coordinator_tasks.core.machine.draft import draft_of, node_of, unless_same
from coordinator_tasks.core.machine.world import TopicView, World
from coordinator_tasks.core.model import CONFIGURED, State, TopicConfig, TopicState
from tests.unit.coordinator_tasks.core.codecs.test_codecs import NODE
from tests.unit.coordinator_tasks.core.codecs.test_codecs import SPLIT_CONFIG as CONFIG

LEAST = TopicConfig("orders", "", "", "")
WITHOUT_A_PLAN = {"topic", "approval"}
"""Fields of the configuration without an effect on plans."""


def test_new_field_of_the_topic_node_comes_from_the_draft_or_the_configuration() -> None:
    config = replace(LEAST, **{name: getattr(NODE, name) for name in CONFIGURED})
    flight = TopicState(State.CLOSING, to_start={"a": (45,), "b": (46,)}, to_close={"a": (46,)})
    written = node_of(draft_of(TopicView(config, NODE, flight, (45, 46)), "fresh"), config)
    missing = [one.name for one in fields(NODE) if getattr(written, one.name) != getattr(NODE, one.name)]
    assert missing == ["epoch"], "`node_of` writes them, from the draft that `draft_of` makes of the node"
    assert written.epoch == NODE.epoch + 1


@pytest.mark.parametrize("name", CONFIGURED)
def test_a_changed_field_that_the_node_repeats_is_written_at_once(name: str) -> None:
    changed = replace(NODE, **{name: getattr(LEAST, name)})
    assert changed != NODE
    assert unless_same(NODE, changed, True) is changed


@pytest.mark.parametrize("name", [one.name for one in fields(TopicConfig) if one.name not in WITHOUT_A_PLAN])
def test_a_configuration_field_without_a_digest_entry(name: str) -> None:
    changed = replace(LEAST, **{name: getattr(CONFIG, name)})
    assert changed != LEAST
    before, after = (digest(TopicView(one, None, None, ()), World(0.0), {}) for one in (LEAST, changed))
    assert before != after, f"a change of `{name}` causes no plan: name it in `digest`, or in WITHOUT_A_PLAN"
