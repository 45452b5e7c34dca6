"""Calls as people guess them: they work, or say in two lines what is wrong and what to try."""

from __future__ import annotations

import ast
import inspect as python
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache, partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import attnviz
from attnviz import AttnvizError, Settings, Trace
from attnviz.analysis.inspection.corpus_effects import CorpusEffects
from attnviz.analysis.inspection.inspect_options import InspectOptions, LookingKeywords
from attnviz.analysis.inspection.two_sentences import TraceComparison, compare_two_traces
from attnviz.renderers import Look
from attnviz.traces.result import DrawKeywords, ViewKeywords
from attnviz.traces.settings import SettingKeywords
from attnviz.views.view import VIEW_FUNCTIONS
from attnviz.wording.commands import COMMAND_OPTIONS, options_as_keywords
from attnviz.wording.keywords import LookKeywords
from tests.conftest import ROOT

STORY = "The animal was too tired because it slept"
MODELS = ROOT / "attnviz" / "traces" / "models"
WEIGHTS = torch.tensor([[1.0, 0.0], [0.5, 0.5]])


@cache
def animal() -> Trace:
    """The sentence in MiniLM: 6 layers of 12 heads."""
    return attnviz.trace(STORY, model="minilm")


@cache
def small() -> Trace:
    """A sentence of two tokens with random vectors: 2 layers of 2 heads."""
    return attnviz.trace("I am", heads=2, layers=2)


def link() -> attnviz.Inspection:
    return attnviz.inspect(animal(), source="it", to="animal")


@cache
def surveyed() -> attnviz.Survey:
    return attnviz.survey(["She is not here yet.", "It is late."])


@cache
def paired() -> attnviz.MinimalPairs:
    return attnviz.pairs([("The dog saw it", "The dog hid it", "it", "dog", "The")])


@cache
def effects() -> CorpusEffects:
    return attnviz.head_effects([STORY, "It was late"], layer=5, head=[10, 11], pairs=2)


@cache
def film() -> attnviz.Film:
    traces = [attnviz.trace("I am", heads=2, layers=2, seed=seed) for seed in (1, 2)]
    return attnviz.film(traces, names=["before", "after"])


@cache
def two() -> TraceComparison:
    return attnviz.compare_sentences(animal(), "The animal was too wide because it slept")


GUESSED: dict[str, Callable[[], Any]] = {  # of a review, by somebody who had read no documentation
    "trace[5, 11]": lambda: animal()[5, 11],
    "trace['L5H11']": lambda: animal()["L5H11"],
    "trace[5]": lambda: animal()[5],
    "trace[:, 11]": lambda: animal()[:, 11],
    "for layer in trace": lambda: [[*layer] for layer in animal()],
    "len(trace)": lambda: len(animal()),
    "trace.shape": lambda: animal().shape,
    "trace.n_layers": lambda: animal().n_layers,
    "trace.n_heads": lambda: animal().n_heads,
    "trace.tokens[3]": lambda: animal().tokens[3],
    "list(trace.tokens)": lambda: list(animal().tokens),
    "len(trace.tokens)": lambda: len(animal().tokens),
    "trace[5, 11, 'it']": lambda: animal()[5, 11, "it"],
    "trace['L5H11', 'it', 'animal']": lambda: animal()["L5H11", "it", "animal"],
    "trace[..., 0]": lambda: animal()[..., 0],
    "trace.top(5)": lambda: animal().top(5),
    "trace.ranking": lambda: animal().ranking,
    "trace.attentions[5][11]": lambda: animal().attentions[5][11],
    "trace.tokens['it']": lambda: animal().tokens["it"],
    "trace.tokens.index('it')": lambda: animal().tokens.index("it"),
    "trace.tokens[2:5]": lambda: animal().tokens[2:5],
    "layer.shape": lambda: animal()[5].shape,
    "inspect()[5, 11]": lambda: attnviz.inspect(animal())[5, 11].weights,
    "np.asarray(inspect()[5, 11])": lambda: np.asarray(attnviz.inspect(animal())[5, 11]),
    "inspect().weights": lambda: attnviz.inspect(animal()).weights[5, 11],
    "inspect().shape": lambda: attnviz.inspect(animal()).shape,
    "inspect(query=-1)": lambda: attnviz.inspect(animal(), query=-1).view(),
    "survey[0, 2]": lambda: surveyed()[0, 2],
    "survey['L0H2']": lambda: surveyed()["L0H2"],
    "for head in survey": lambda: [head.name for head in surveyed()],
    "survey.top(5)": lambda: surveyed().top(5),
    "survey.ranking, len, shape": lambda: (surveyed().ranking, len(surveyed()), surveyed().shape),
    "pairs()[0, 2]": lambda: paired()[0, 2],
    "for head in pairs()": lambda: [head.name for head in paired()],
    "pairs().top(3)": lambda: paired().top(3),
    "effects[5, 11]": lambda: effects()[5, 11],
    "effects['L5H11']": lambda: effects()["L5H11"],
    "effects.top(1)": lambda: effects().top(1),
    "list(effects)": lambda: [*effects()],
    "compare_sentences()[4, 9]": lambda: two()[4, 9],
    "compare_sentences().shape": lambda: two().shape,
    "film[0], film[-1]": lambda: (film()[0], film()[-1]),
    "film['after', 1, 0, 'am']": lambda: film()["after", 1, 0, "am"],
    "len(film), list(film)": lambda: (len(film()), [*film()]),
    "film.top(1)": lambda: film().top(1),
    "for step in steps()": lambda: [*attnviz.steps("I am")],
    "compare()[0]": lambda: attnviz.compare("I am")[0],
    "trace.layers[5].heads[11]": lambda: animal().layers[5].heads[11],  # type: ignore[index]
    "trace.layers[5][11]": lambda: animal().layers[5][11],
    "trace.layers[5].weights.shape": lambda: animal().layers[5].weights.shape,
    "np.asarray(trace)": lambda: np.asarray(animal()),
    "np.asarray(layer.weights)": lambda: np.asarray(animal().layers[5].weights),
    "trace.numpy()": lambda: animal().numpy(),
    "trace.to_dataframe()": lambda: small().to_dataframe(),
    "trace.to_csv()": lambda: small().to_csv(),
    "trace.plot()": lambda: small().plot(),
    "trace.show()": lambda: small().show(),
    "attnviz.load(path)": lambda: attnviz.load("saved.npz"),
    "attnviz.models()": lambda: attnviz.models(),
    "inspect().ranking": lambda: link().ranking,
    "inspect().top(5)": lambda: link().top(5),
    "inspect().heads": lambda: attnviz.inspect(animal()).heads,  # type: ignore[attr-defined]
    "heatmap(ax=ax)": lambda: small().heatmap(ax=Figure().subplots()),
    "heatmap(cmap=…)": lambda: small().heatmap(cmap="magma"),  # type: ignore[call-overload]
    "heatmap(colors=…)": lambda: small().heatmap(colors="magma"),
    "heatmap(theme=…)": lambda: small().heatmap(theme="dark"),
    "inspect(query=7)": lambda: attnviz.inspect(animal(), query=7).view(),
    "inspect(source=8, to=3)": lambda: attnviz.inspect(animal(), source=8, to=3).view(),
    "inspect(layer=[4, 5])": lambda: attnviz.inspect(animal(), layer=[4, 5]).maps,
    "inspect(layer=slice(4, None))": lambda: attnviz.inspect(animal(), layer=slice(4, None)).maps,
    "inspect(heads=[1, 11])": lambda: attnviz.inspect(animal(), heads=[1, 11]).maps,  # type: ignore[arg-type]
    "inspect(head='L5H11')": lambda: attnviz.inspect(animal(), head="L5H11").view(),
    "inspect(layr=5)": lambda: attnviz.inspect(STORY, layr=5),  # type: ignore[call-arg]
    "inspect(layer='five')": lambda: attnviz.inspect(STORY, layer="five"),  # type: ignore[arg-type]
    "inspect(model, text)": lambda: attnviz.inspect(torch.nn.Linear(2, 2), STORY),  # type: ignore[arg-type]
    "compare(a, b)": lambda: attnviz.compare(STORY, "It slept"),  # type: ignore[call-overload]
    "compare_sentences(a, b)": lambda: attnviz.compare_sentences(
        animal(), "The animal was too wide because it slept"
    ),
    "trace(model=Path(…))": lambda: attnviz.trace("a b c d e f g h", model=MODELS / "reverse"),
    "trace(model=module)": lambda: attnviz.trace(STORY, model=torch.nn.Linear(2, 2)),
    "trace(dtype=torch.float64)": lambda: attnviz.trace("I am", dtype=torch.float64),
    "trace(device=torch.device('cpu'))": lambda: attnviz.trace("I am", device=torch.device("cpu")),
    "trace(without=['L0H0'])": lambda: attnviz.trace("I am", heads=2, without=["L0H0"]),
    "save(size='3.3x3.3')": lambda: small().save("figure.png", size="3.3x3.3"),
    "trace(['I', 'am'])": lambda: attnviz.trace(["I", "am"]),  # type: ignore[arg-type]
    "from_weights(trace.weights, tokens)": lambda: attnviz.from_weights(
        animal().weights, list(animal().tokens)
    ),
}
WITHOUT_ANSWER = {"trace.layers[5].heads[11]", "inspect().heads"}  # which only Python refuses


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def is_two_lines(error: Exception) -> bool:
    """Whether an error says what is wrong and what to try, a line each, in words of Python."""
    if not isinstance(error, AttnvizError):
        return False
    lines = str(error), error.hint
    return all(lines) and not any(
        "\n" in line or re.search("(?<!['\"])--[a-z]", line.partition("attnviz ")[0])
        for line in lines
    )


@pytest.mark.filterwarnings("ignore::attnviz.errors.Note")
def test_of_85_guesses_83_work_or_are_answered_in_two_lines() -> None:
    small().save("saved.npz")
    failed = {}
    for name, call in GUESSED.items():
        try:
            call()
        except Exception as error:
            failed[name] = error

    two_lines = {name for name, error in failed.items() if is_two_lines(error)}
    assert len(GUESSED) == 85
    assert failed.keys() - two_lines == WITHOUT_ANSWER
    assert len(two_lines) <= 14


ODD: tuple[Any, ...] = (
    *(None, 3, -1, 10**30, 2.5, float("nan"), True, "", "zebra", "--layer 0", b"x", [], [1], ["x"]),
    *({}, {"a": 1}, object(), int, slice(1), slice("a"), Path("x"), Ellipsis, 1 + 2j, (1, 2, 3)),
    *(torch.zeros(2), np.zeros((2, 2)), np.int64(1), print),
)


def with_odd(odd: dict[str, Any], **usual: Any) -> dict[str, Any]:
    """The usual arguments, with an odd one."""
    return usual | odd


KEYWORDS_BY_CALL: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "trace": (
        lambda **odd: attnviz.trace(odd.pop("text", "I am"), **odd),
        ("text", "settings", "vectors", "mistake", "kept", *SettingKeywords.__annotations__),
    ),
    "inspect": (
        lambda **odd: attnviz.inspect(odd.pop("text", small()), **odd).view(),
        ("text", "settings", *LookingKeywords.__annotations__),
    ),
    "compare": (
        lambda **odd: attnviz.compare(odd.pop("text", "I am"), **odd),
        ("text", "settings", "by", "other", "values", "reference", "layer"),
    ),
    "compare_sentences": (
        lambda **odd: attnviz.compare_sentences(odd.pop("first", small()), small(), **odd),
        ("first", "settings", "layer", "head", "query"),
    ),
    "compare_scores": (
        lambda **odd: attnviz.compare_scores(**with_odd(odd, scores=WEIGHTS[None], width=4)),
        ("scores", "width", "visible", "labels"),
    ),
    "steps": (
        lambda **odd: attnviz.steps(odd.pop("text", "I am"), **odd),
        ("text", "query", "key", "step", "head", "layer", "digits", "full"),
    ),
    "from_weights": (
        lambda **odd: attnviz.from_weights(**with_odd(odd, weights=WEIGHTS, tokens=["I", "am"])),
        ("weights", "tokens", "keys", "tokenizer", "item", "name"),
    ),
    "rank": (lambda **odd: attnviz.rank(**with_odd(odd, model="zebra")), ("model", "task")),
    "learn": (
        lambda **odd: attnviz.learn(**with_odd(odd, task="zebra")),
        ("task", "settings", "choices", "watch"),
    ),
    "compare_learning": (
        lambda **odd: attnviz.compare_learning(**with_odd(odd, task="zebra")),
        ("task", "settings", "by", "values", "repeats", "choices"),
    ),
    "task_of": (lambda **odd: attnviz.task_of(**odd), ("name",)),
    "example": (lambda **odd: attnviz.example(**odd), ("name",)),
    "read": (lambda **odd: attnviz.read(**odd), ("name",)),
    "draw": (lambda **odd: attnviz.draw(**with_odd(odd, trace=small())), ("trace", "show")),
    "render": (
        lambda **odd: attnviz.render(**with_odd(odd, view=small().view(), suffix=".csv")),
        ("view", "suffix", *LookKeywords.__annotations__),
    ),
    "Settings": (lambda **odd: Settings(**odd), ("seed", "odd", "without")),
    "Choices": (lambda **odd: attnviz.Choices(**odd), ("steps", "until", "batch", "rate", "odd")),
    "trace.view": (lambda **odd: small().view(**odd), (*ViewKeywords.__annotations__, "odd")),
    "trace.heatmap": (lambda odd: small().heatmap(odd), ("odd",)),  # type: ignore[call-overload]
    "trace.save": (lambda odd: small().save(odd), ("odd",)),
    "trace.to_csv": (lambda odd: small().to_csv(odd), ("odd",)),
    "trace[]": (lambda odd: small()[odd], ("odd",)),
    "trace[0][]": (lambda odd: small()[0][odd], ("odd",)),
    "trace[0, 0, ]": (lambda odd: small()[0, 0, odd], ("odd",)),
    "layer.weights[]": (lambda odd: small().layers[0].weights[odd], ("odd",)),
    "tokens[]": (lambda odd: small().tokens[odd], ("odd",)),
    "tokens.index": (lambda odd: small().tokens.index(odd), ("odd",)),
    "survey[]": (lambda odd: surveyed()[odd], ("odd",)),
    "survey[0, ]": (lambda odd: surveyed()[0, odd], ("odd",)),
    "inspect[]": (lambda odd: attnviz.inspect(small())[odd], ("odd",)),
    "inspect[0, 0][]": (lambda odd: attnviz.inspect(small())[0, 0][odd], ("odd",)),
    "film[]": (lambda odd: film()[odd], ("odd",)),
    "top": (lambda odd: attnviz.inspect(small(), source="I", to="I").top(odd), ("odd",)),
}


def odd_calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every keyword of every function with every odd value."""
    for function, (call, names) in KEYWORDS_BY_CALL.items():
        for name in names:
            for number, value in enumerate(ODD):
                yield f"{function}({name}=ODD[{number}])", partial(call, **{name: value})


@pytest.mark.filterwarnings("ignore")  # of odd dpi and dtypes
def test_no_odd_call_raises_an_error_of_python() -> None:
    """Every 13th of about 4,000: so each keyword gets two or three of the odd values."""
    calls = [*odd_calls()][::13]
    raised = {}
    for name, call in calls:
        try:
            call()
        except Exception as error:
            if not is_two_lines(error):
                raised[name] = error

    assert len(calls) > 300
    assert raised == {}


@pytest.mark.parametrize(
    ("keywords", "options"),
    [(SettingKeywords, Settings), (LookingKeywords, InspectOptions), (LookKeywords, Look)],
)
def test_keywords_are_the_fields_of_the_options(keywords: type, options: type) -> None:
    """With every type that a field has: a keyword may have others, too, but for names of heads."""
    names = {field.name: str(field.type) for field in fields(options)}
    written = {name: each.__forward_arg__ for name, each in keywords.__annotations__.items()}
    narrower = {"layer": {"str"}}  # a text of numbers is for command lines

    assert [*written] == [*names]
    for name, types in names.items():
        missing = set(types.split(" | ")) - set(re.split(r" \| ", written[name]))
        assert not missing - narrower.get(name, set()) or written[name] == "Any", name


def test_keywords_of_views_are_those_of_all_results() -> None:
    """But for those that only a command gives."""
    taken: set[str] = set()
    for path in VIEW_FUNCTIONS.values():
        _, *parameters = python.signature(pkgutil.resolve_name(path)).parameters.values()
        taken |= {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    steps = python.signature(attnviz.steps).parameters  # which a worked example takes, too
    taken |= {"key", "step", "digits", "full"} & steps.keys()

    assert taken - {"command", "line", "trace", "track"} == {*ViewKeywords.__annotations__}
    assert {*DrawKeywords.__annotations__} == {
        *ViewKeywords.__annotations__,
        *LookKeywords.__annotations__,
    }


def test_a_notebook_completes_every_keyword() -> None:
    shown = python.signature(attnviz.inspect).parameters

    assert [*shown][:2] == ["text", "settings"]
    assert {*shown} >= SettingKeywords.__annotations__.keys() | LookingKeywords.__annotations__
    assert "theme" in python.signature(small().heatmap).parameters


def messages() -> Iterator[str]:
    """Every text with options in the problem or the hint of an error, but for those of commands."""
    for path in sorted((ROOT / "attnviz").rglob("*.py")):
        source = path.read_text("utf-8")
        if "cli" in path.parts or "--" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "AttnvizError":
                parts = [part for text in node.args for part in ast.walk(text)]
                texts = [part.value for part in parts if isinstance(part, ast.Constant)]
                yield from (str(text).strip("' ") for text in texts if "--" in str(text))


def test_no_option_is_left_in_an_error_of_the_library() -> None:
    """But for those of pip, of commands that are quoted whole, and of what only a command does."""
    left = re.compile(r"(?<!['\w-])--[a-z][a-z-]+")
    of_others = {"--force-reinstall", "--no-deps", "--upgrade", "--learn", "--show-completion"}
    allowed = of_others | {f"--{name.replace('_', '-')}" for name in COMMAND_OPTIONS}
    texts = [*map(options_as_keywords, messages())]
    found = {text: {*left.findall(text.partition("attnviz ")[0])} - allowed for text in texts}

    assert len(texts) > 100
    assert {text: options for text, options in found.items() if options} == {}
    assert not [text for text in texts if re.search(r'="(and|or|is|in|out|that|with)"', text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("give both: --from it --to animal", 'give both: source="it", to="animal"'),
        ("leave out --predict, or --as arcs", 'leave out predict=True, or as_="arcs"'),
        ("try --no-scale or --size 8x5", 'try scale=False or size="8x5"'),
        ("try --without L1H1 (layer 1, head 1)", 'try without="L1H1" (layer 1, head 1)'),
        ("--memory TEXT, or --head-dim 8", 'memory="…", or head_dim=8'),
        ("'--layer' is no token", "'--layer' is no token"),
        ("attnviz run TEXT --model m, or --layer 0", "attnviz run TEXT --model m, or layer=0"),
        ("allow more with: --limit 20MB", "allow more with: --limit 20MB"),
    ],
)
def test_options_become_keywords(text: str, expected: str) -> None:
    assert options_as_keywords(text) == expected
    assert options_as_keywords(expected) == expected


def test_a_command_keeps_the_names_of_its_options(attnviz: Any) -> None:
    for words, problem in {
        ("inspect", STORY, "--layer", "-1"): "--layer is -1, but counting starts at 0",
        (
            "inspect",
            STORY,
            "--head",
            "five",
        ): "--head is 'five', and should be the number of a head",
        ("run", "I am", "--dim", "0"): "--dim is 0, and must be from 1 to 65,536",
    }.items():
        assert attnviz(*words).err.splitlines()[0] == f"error: {problem}"


def test_several_heads_are_chosen_on_a_command_line_as_in_python(attnviz: Any) -> None:
    found = globals()["attnviz"].inspect(animal(), layer=[4, 5], head=["L5H11", 3])
    line = "--layer 4,5 --head L5H11,3"

    assert [each.name for each in found.maps] == ["L4H3", "L5H3", "L5H11"]
    assert found.view().command.line.endswith(line)
    told = attnviz("inspect", STORY, *line.split()).out
    assert [name for name in ("L4H3", "L5H3", "L5H11", "L4H4") if name in told] == [
        "L4H3",
        "L5H3",
        "L5H11",
    ]


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        ({"head": "L5H11"}, ["L5H11"]),
        ({"head": "h11", "layer": 5}, ["L5H11"]),
        ({"head": ["L5H11", "L3H1"]}, ["L3H1", "L5H11"]),
        ({"layer": np.int64(5), "head": np.array([1, 2])}, ["L5H1", "L5H2"]),
        ({"layer": slice(4, None), "head": 0}, ["L4H0", "L5H0"]),
        ({"layer": slice(-1, None), "heads": [0]}, ["L5H0"]),
        ({"layer": range(2), "head": slice(0, 12, 6)}, ["L0H0", "L0H6", "L1H0", "L1H6"]),
    ],
)
def test_heads_are_chosen_by_numbers_names_lists_and_slices(
    chosen: dict[str, Any], names: list[str]
) -> None:
    assert [each.name for each in attnviz.inspect(animal(), **chosen).maps] == names


def test_only_the_layers_of_named_heads_are_kept() -> None:
    found = attnviz.inspect(STORY, head=["L5H11", "L3H1"])

    assert [layer.layer for layer in found.trace.layers] == [3, 5]


def test_a_head_is_the_same_by_every_index() -> None:
    trace, whole = animal(), animal().weights
    stacked = torch.stack([*trace[5]])
    for weights in (trace[5, 11], trace["L5H11"], trace["l5h11"], trace[-1, -1], trace[5][11],
                    trace[5]["H11"], trace["L5"][11], trace.layers[5].weights[11],
                    trace[np.int64(5), torch.tensor(11)]):  # fmt: skip
        assert torch.equal(weights, whole[5, 11])
    assert torch.equal(trace[5, :], stacked)
    assert torch.equal(trace[:, 11], whole[:, 11])
    assert torch.equal(trace[...], whole)
    assert torch.equal(trace[[5, 3], 11], whole[[5, 3], 11])
    assert torch.equal(trace[["L5H11", "L3H1"]], whole[[5, 3], [11, 1]])
    assert torch.equal(trace[2:4, 1:3, 7], whole[2:4, 1:3, 7])
    assert torch.equal(trace["L5H11", 7, 2], whole[5, 11, 7, 2])
    assert trace[2:4] == trace.layers[2:4]
    assert (np.asarray(trace) == whole.numpy()).all()
    assert np.asarray(trace.layers[5].weights, dtype=np.float64).dtype == np.float64
    assert trace.shape == tuple(whole.shape)
    assert trace.layers[5].weights.shape == tuple(whole.shape[1:])


def test_layers_keep_their_numbers_where_only_some_are_kept() -> None:
    kept = attnviz.trace(STORY, model="minilm", kept=(2, 4))

    assert [layer.layer for layer in kept] == [2, 4]
    assert torch.equal(kept[4, 1], animal()[4, 1])
    assert kept[3:] == (kept[4],)
    with pytest.raises(AttnvizError, match="there is no layer 5: the layers are 2 to 4"):
        kept[5]


def test_weights_that_are_changed_leave_the_trace_as_it_is() -> None:
    small()[0, 0].zero_()

    assert small()[0, 0].sum() == 2


def test_tokens_are_their_labels() -> None:
    tokens = animal().tokens

    assert list(tokens) == list(tokens.labels)
    assert (tokens[2], tokens[-2], tokens[1:3]) == ("animal", "slept", ("The", "animal"))
    with pytest.raises(AttnvizError, match="there is no token 99: the last one is 9"):
        tokens[99]


def test_a_row_of_a_ranking_says_what_other_tokens_give() -> None:
    first = link().top(1)[0]
    row = animal()[first.name]  # the weights of each query
    others = [query for query in range(len(row)) if query not in (0, 2, 7, 9)]

    assert repr(link().top(1)) == repr(first)
    assert re.fullmatch(r'<L\dH\d+: "it" gives "animal" \.\d\d, other tokens \.\d\d>', repr(first))
    assert first.weight == pytest.approx(float(row[7, 2]))
    assert first.others.mean == pytest.approx(float(row[others, 2].mean()))
    assert len(link().ranking) == 72


def test_every_ranking_is_read_line_by_line() -> None:
    lines = {
        "query": repr(attnviz.inspect(animal(), query="it").top(2)),
        "heads": repr(attnviz.inspect(animal()).top(2)),
        "effects": repr(attnviz.inspect(animal(), by="effect", layer=5, head=[1, 2]).ranking),
        "model": repr(attnviz.rank("reverse").ranking),
    }

    assert re.fullmatch(
        r'(<L\dH\d+: "it" gives ".+" \S+, other tokens \.\d\d>\n?){2}', lines["query"]
    )
    assert re.fullmatch(r"(<L\dH\d+: [a-z ()]+ \S+, evenly \.\d\d>\n?){2}", lines["heads"])
    assert re.fullmatch(
        r"(<L5H\d: the last vectors change by .+ without it>\n?){2}", lines["effects"]
    )
    assert re.fullmatch(r"<L0H0: .+ right without it>", lines["model"])
    assert repr(attnviz.inspect(animal()).ranking).endswith("\n… and 52 more")


def test_a_dataframe_has_a_row_for_each_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a table of pandas, or in what stands for it where it is not installed."""
    pandas = ModuleType("pandas")
    pandas.__spec__ = ModuleSpec("pandas", None)
    vars(pandas)["DataFrame"] = dict
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    table = attnviz.trace("I am", heads=2).to_dataframe()
    weights = attnviz.trace("I am", heads=2).weights

    assert [*table] == [
        *("layer", "head", "query_position", "query", "key_position", "key", "weight", "visible"),
    ]
    assert table["weight"] == weights.flatten().tolist()
    assert table["query_position"] == [0, 0, 1, 1] * 2
    assert table["key"] == ["I", "am"] * 4
    both = compare_two_traces(*film(), names=("step 0", "step 9"))
    assert [*both.to_dataframe()][4:] == ["step_0", "step_9"]
    assert "query number" in (attnviz.trace("I am").to_csv() or "")


def test_without_pandas_there_is_the_text_of_a_csv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.views.view.find_spec", lambda name: None)
    with pytest.raises(AttnvizError) as error:
        small().to_dataframe()

    assert str(error.value) == "a DataFrame needs pandas, which is not installed"
    assert error.value.hint.startswith("pip install pandas; or to_csv()")
    text = small().to_csv()
    assert text is not None
    assert small().to_csv("weights.csv") is None
    assert Path("weights.csv").read_text("utf-8") == text
    assert len(text.splitlines()) == 1 + small().weights.numel()


def test_a_result_shows_its_tables(capsys: pytest.CaptureFixture[str]) -> None:
    small().show(show="weights")

    assert "weights" in capsys.readouterr().out


def test_a_size_in_words_is_that_of_a_command() -> None:
    figure = small().heatmap(size="3.3x2.5")

    assert figure.get_size_inches().tolist() == [3.3, 2.5]
    assert Look(size="1920x1080").dpi == 144  # type: ignore[arg-type]
