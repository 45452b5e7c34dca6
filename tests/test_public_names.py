"""The names at the top of attnviz, and what `help` shows of them: types and true defaults."""

from __future__ import annotations

import inspect
import pkgutil
import pydoc
import re
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import pytest
import torch

import attnviz
from attnviz.analysis.inspection.inspect_options import InspectOptions, LookingKeywords
from attnviz.analysis.inspection.two_sentences import TraceComparison
from attnviz.learning.training import Learned
from attnviz.renderers import Look, render
from attnviz.traces.models.model_names import MINILM
from attnviz.traces.result import Showable, ViewKeywords
from attnviz.traces.settings import SettingKeywords, Settings, TextsKeywords
from attnviz.views.view import VIEW_FUNCTIONS, View
from attnviz.wording.keywords import LookKeywords
from tests.conftest import ROOT

PUBLIC_FUNCTIONS = [
    each for name in attnviz.__all__ if isinstance(each := getattr(attnviz, name), FunctionType)
]
CLASSES_WITH_METHODS = (attnviz.Trace, attnviz.Film, attnviz.Inspection, Learned, Showable, View)
PUBLIC_METHODS = [
    method
    for each in (*CLASSES_WITH_METHODS, TraceComparison)
    for name, method in inspect.getmembers(each, inspect.isfunction)
    if not name.startswith("_")
]
READING_WITH_MINILM = {"inspect", "compare_sentences", "survey", "pairs", "head_effects"}


def shown_defaults(function: Callable[..., Any], keywords: type) -> dict[str, Any]:
    """The defaults that `help` shows of those parameters that are keywords of a TypedDict."""
    parameters = inspect.signature(function).parameters
    names = [name for name in keywords.__annotations__ if name in parameters]
    return {name: parameters[name].default for name in names}


def defaults_of(options: object, names: Mapping[str, Any]) -> dict[str, Any]:
    """The values of these fields in options that nobody changed."""
    return {name: getattr(options, name) for name in names}


def test_the_top_has_27_names() -> None:
    assert len(attnviz.__all__) == 27
    assert {*attnviz.__all__} <= {*dir(attnviz)}


def test_type_checkers_see_each_name_in_the_module_that_it_is_imported_from() -> None:
    source = (ROOT / "attnviz" / "__init__.py").read_text("utf-8")
    modules = re.findall(r"^    from (attnviz\S*) import (\w+) as \2$", source, re.MULTILINE)

    assert len(modules) == len(attnviz.__all__)
    for module, name in modules:
        assert getattr(attnviz, name) is pkgutil.resolve_name(f"{module}:{name}")


def test_a_name_that_is_not_there_is_looked_up_in_the_docs() -> None:
    with pytest.raises(AttributeError) as caught:
        attnviz.rank  # noqa: B018

    assert str(caught.value) == (
        "module 'attnviz' has no attribute 'rank'; docs/library.md says where each name is"
    )


def test_the_docs_say_where_each_name_is() -> None:
    page = (ROOT / "docs" / "library.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.*`) \| `(attnviz\S*)` \|", page, re.MULTILINE)
    listed = [(name, module) for names, module in rows for name in re.findall(r"`(\w+)`", names)]

    assert {name for name, module in listed if module == "attnviz"} == {*attnviz.__all__}
    for name, module in listed:
        pkgutil.resolve_name(f"{module}:{name}")


@pytest.mark.parametrize("function", [*PUBLIC_FUNCTIONS, *PUBLIC_METHODS, render])
def test_every_parameter_shows_its_type_and_its_default(function: FunctionType) -> None:
    for parameter in inspect.signature(function).parameters.values():
        assert parameter.default is not Ellipsis, parameter
        if parameter.name != "self":
            assert parameter.annotation is not inspect.Parameter.empty, parameter


@pytest.mark.parametrize("function", PUBLIC_FUNCTIONS)
def test_the_default_of_a_setting_is_that_of_the_settings(function: FunctionType) -> None:
    defaults = shown_defaults(function, SettingKeywords)
    if "settings" not in inspect.signature(function).parameters or function.__name__ == "learn":
        return  # an item, a tokenizer or layers of something else
    model = MINILM if function.__name__ in READING_WITH_MINILM else None
    expected = defaults_of(Settings(model=model), defaults)

    assert defaults == expected
    assert {*defaults} >= {
        *TextsKeywords.__annotations__
    } or function.__name__ == "compare_learning"


def test_the_default_of_a_choice_of_heads_is_that_of_the_inspection() -> None:
    defaults = shown_defaults(attnviz.inspect, LookingKeywords)

    assert {*defaults} == {*LookingKeywords.__annotations__}
    assert defaults == defaults_of(InspectOptions(), defaults)


@pytest.mark.parametrize("function", [attnviz.film, render, View.save, View.figure, Showable.save])
def test_the_default_of_a_look_is_that_of_a_picture(function: FunctionType) -> None:
    defaults = shown_defaults(function, LookKeywords)

    assert {*defaults} == {*LookKeywords.__annotations__}
    assert defaults == defaults_of(Look(), defaults)


@pytest.mark.parametrize("path", sorted({*VIEW_FUNCTIONS.values()}))
def test_the_default_of_a_choice_of_a_view_is_that_of_the_function_that_makes_it(path: str) -> None:
    defaults = shown_defaults(Showable.view, ViewKeywords)
    own = shown_defaults(pkgutil.resolve_name(path), ViewKeywords)

    assert own == {name: defaults[name] for name in own}


def test_the_defaults_of_steps_are_those_of_a_view() -> None:
    names = ("full", "digits")
    parameters = inspect.signature(attnviz.steps).parameters
    defaults = shown_defaults(Showable.view, ViewKeywords)

    assert {name: defaults[name] for name in names} == {n: parameters[n].default for n in names}


def test_the_shown_defaults_of_trace_change_nothing() -> None:
    defaults = shown_defaults(attnviz.trace, SettingKeywords)
    usual, same = attnviz.trace("I am"), attnviz.trace("I am", **defaults)

    assert torch.equal(usual.weights, same.weights)
    assert usual.origin.settings == same.origin.settings


def test_the_shown_defaults_of_inspect_change_nothing() -> None:
    traced = attnviz.trace("the keys near the cabinet", model="agreement")
    defaults = shown_defaults(attnviz.inspect, LookingKeywords)

    usual, same = attnviz.inspect(traced), attnviz.inspect(traced, **defaults)
    assert usual.options == same.options
    assert usual.view().headline == same.view().headline


def test_help_shows_a_setting_with_its_type_and_its_default() -> None:
    page = pydoc.plain(pydoc.render_doc(attnviz.trace))

    assert re.search(r"seed: '?int'? = 42", page)
    assert re.search(r"variant: '?str'? = 'scaled'", page)
    assert "Ellipsis" not in page


def test_training_options_are_keywords_of_learn() -> None:
    assert attnviz.learn("sort", steps=2, batch=8).choices.batch == 8
    with pytest.raises(attnviz.AttnvizError, match="there is no keyword 'step'") as caught:
        attnviz.learn("sort", step=2)  # type: ignore[call-arg]
    assert caught.value.hint == "did you mean 'steps'?"
