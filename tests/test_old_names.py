"""Old names of public attributes are the new ones, wherever they are read or given."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

import attnviz
from attnviz import AttnvizError
from attnviz.wording.old_names import NEW_NAMES

SENTENCE = "the keys near the cabinet"


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    """An object of each class that has old names, by its class."""
    traced = attnviz.trace(SENTENCE, model="agreement")
    found = (
        traced,
        traced.prediction,
        traced.origin.settings,
        attnviz.inspect(traced, head=1),
        attnviz.compare(traced, traced),
        attnviz.steps(traced),
        attnviz.rank("agreement"),
        attnviz.task_of("agreement"),
        traced.view(),
    )
    return {type(each).__name__: each for each in found}


def test_every_class_with_old_names_is_tried(results: dict[str, Any]) -> None:
    assert results.keys() == NEW_NAMES.keys()


@pytest.mark.parametrize("name", NEW_NAMES)
def test_an_old_name_is_the_new_one(name: str, results: dict[str, Any]) -> None:
    result, declared = results[name], {field.name for field in fields(results[name])}
    for old, new in NEW_NAMES[name].items():
        assert getattr(result, old) == getattr(result, new)
        assert old not in declared
        if new in declared:
            marked = replace(result, **{old: getattr(result, new)})
            assert getattr(marked, new) is getattr(result, new)


def test_an_old_name_as_a_keyword_replaces_the_value(results: dict[str, Any]) -> None:
    options = replace(results["Inspection"].options, head=0)
    changed = replace(results["Inspection"], looking=options)

    assert changed.options is changed.looking is options
    assert [head.name for head in changed.plain] == ["L0H0", "L1H0"]
    assert replace(results["Task"], asked="noun").answer_noun == "noun"
    with pytest.raises(AttnvizError, match="there is no keyword 'seeing'"):
        replace(results["Inspection"], seeing=options)
