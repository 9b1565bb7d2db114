"""Answers, committed metadata, forms and command lines full of anything: one error in one line, and nobody else is touched."""

import pytest

from tests.faults.hostile import CHUNK, EDGES, problems_of

CHUNKS = 10
"""A tenth of what the long part gives each edge."""


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("edge", EDGES)
def test_what_an_outsider_says_harms_nobody_else(edge: str, chunk: int) -> None:
    assert problems_of(edge, chunk, CHUNK) == []
