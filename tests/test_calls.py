"""Calls as people guess them: they work, or say in two lines what is wrong and what to try."""

from __future__ import annotations

import ast
import inspect as python
import os
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import jaxtyping
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import attnviz
from attnviz import AttnvizError, Settings, Trace
from attnviz.analysis.comparison import compare_scores
from attnviz.analysis.head_accuracy import rank
from attnviz.analysis.inspection.corpus_effects import CorpusEffects
from attnviz.analysis.inspection.inspect_options import InspectOptions, LookingKeywords
from attnviz.analysis.inspection.two_sentences import TraceComparison, compare_two_traces
from attnviz.learning.choices import Choices
from attnviz.learning.lookup import task_of
from attnviz.learning.task import Examples, Reading, Task
from attnviz.renderers import Look, render
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.result import DrawKeywords, ViewKeywords
from attnviz.traces.settings import SettingKeywords
from attnviz.traces.trained.refusals import quiet_transformers
from attnviz.views.view import VIEW_FUNCTIONS, View
from attnviz.wording.commands import COMMAND_OPTIONS, options_as_keywords
from attnviz.wording.keywords import LookKeywords
from tests.conftest import ROOT
from tests.small_transformers import OF_GPT, byte_level

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
def _as_users_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # only tests check shapes


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
def test_of_84_guesses_82_work_or_are_answered_in_two_lines() -> None:
    small().save("saved.npz")
    failed = {}
    for name, call in GUESSED.items():
        try:
            call()
        except Exception as error:
            failed[name] = error

    two_lines = {name for name, error in failed.items() if is_two_lines(error)}
    assert len(GUESSED) == 84
    assert failed.keys() - two_lines == WITHOUT_ANSWER
    assert len(two_lines) <= 14


ODD: tuple[Any, ...] = (
    *(None, 3, -1, 10**30, 2.5, float("nan"), True, "", "zebra", "--layer 0", b"x", [], [1], ["x"]),
    *({}, {"a": 1}, object(), int, slice(1), slice("a"), Path("x"), Ellipsis, 1 + 2j, (1, 2, 3)),
    *(torch.zeros(2), np.zeros((2, 2)), np.int64(1), print),
)


Arguments = dict[str, Any]
Call = tuple[Callable[..., Any], Arguments]  # with usual arguments


@cache
def tiny() -> Arguments:
    """A model of two layers in memory, as keywords."""
    import transformers

    tokenizer = byte_level()
    sizes: dict[str, Any] = OF_GPT | {"vocab_size": len(tokenizer)}
    torch.manual_seed(0)
    with quiet_transformers():
        config = transformers.GPT2Config(**sizes, bos_token_id=1, eos_token_id=2)
        model: Any = transformers.GPT2LMHeadModel(config)
    return {"model": model.eval(), "tokenizer": tokenizer}


IN_MODULES: tuple[Callable[..., object], ...] = (  # those that docs/library.md names
    *(compare_scores, rank, render, task_of),
    *(Choices, Examples, Reading, Task, View, Vocabulary),
)


@cache
def calls() -> dict[str, Call]:
    """Every public function and class, and methods of their results, each with usual arguments."""
    texts = ["I am tired", "It is late"]
    pair = "The animal was because", "The animal too because", "because", "The", "animal"
    weights = {"weights": WEIGHTS, "tokens": ["I", "am"]}
    usual: dict[str, Arguments] = {
        "trace": {"text": "I am"},
        "inspect": {"text": small()},
        "compare": {"text": "I am"},
        "compare_sentences": {"first": small(), "second": small()},
        "compare_models": {"text": "I am", "a": tiny()["model"], "b": tiny()["model"]}
        | {"tokenizer": tiny()["tokenizer"]},
        "compare_scores": {"scores": WEIGHTS[None], "width": 4},
        "steps": {"text": "I am"},
        "from_weights": weights,
        "rank": {"model": "zebra"},
        "learn": {"task": "zebra"},
        "compare_learning": {"task": "zebra"},
        "render": {"view": small().view(), "suffix": ".csv"},
        "film": {"traces": [small(), small()]},
        "survey": {"texts": texts, **tiny()},
        "pairs": {"source": [pair], **tiny()},
        "head_effects": {"texts": texts, **tiny()},
    }
    public = {name: (getattr(attnviz, name), usual.get(name, {})) for name in attnviz.__all__}
    del public["AttnvizError"]  # what all of these raise
    public |= {each.__name__: (each, usual.get(each.__name__, {})) for each in IN_MODULES}
    traced = attnviz.trace("I am tired", **tiny())
    link = attnviz.inspect(traced, source=0, to=0)
    methods = {
        "inspect a model": (attnviz.inspect, {"text": "I am", **tiny()}),
        "inspect effects": (attnviz.inspect, {"text": traced, "by": "effect"}),
        "compare two traces": (attnviz.compare, {"text": small(), "settings": small()}),
        "trace.view": (small().view, {}),
        "trace.heatmap": (small().heatmap, {"head": 0, "layer": 0}),
        "trace.to_csv": (small().to_csv, {}),
        "trace.to_dict": (small().to_dict, {}),
        "trace.numpy": (small().numpy, {}),
        "view.render": (small().view().render, {"suffix": ".csv"}),
        "inspection.top": (link.top, {}),
        "comparison.view": (attnviz.compare("I am").view, {}),
        "film.view": (attnviz.film([small(), small()]).view, {}),
        "two.link": (attnviz.compare_sentences(small(), small(), names=("a", "b")).link, {}),
    }
    indices: dict[str, Call] = {
        "trace[]": (lambda odd: small()[odd], {}),
        "trace[0][]": (lambda odd: small()[0][odd], {}),
        "trace[0, 0, ]": (lambda odd: small()[0, 0, odd], {}),
        "layer.weights[]": (lambda odd: small().layers[0].weights[odd], {}),
        "tokens[]": (lambda odd: small().tokens[odd], {}),
        "tokens.index[]": (lambda name: small().tokens.index(name), {}),
        "survey[]": (lambda odd: surveyed()[odd], {}),
        "survey[0, ]": (lambda odd: surveyed()[0, odd], {}),
        "inspect[]": (lambda odd: attnviz.inspect(small())[odd], {}),
        "inspect[0, 0][]": (lambda odd: attnviz.inspect(small())[0, 0][odd], {}),
        "film[]": (lambda odd: film()[odd], {}),
    }
    return public | methods | indices


@dataclass(frozen=True)
class OddCall:
    """A call with one odd value."""

    name: str  # of the function
    keyword: str
    number: int  # of the value in ODD

    @property
    def arguments(self) -> Arguments:
        """The usual arguments, with the odd one."""
        return {**calls()[self.name][1], self.keyword: ODD[self.number]}

    def error(self, arguments: Arguments | None = None) -> Exception | None:
        """The error of the call, or of one with other arguments; None without any."""
        try:
            result = calls()[self.name][0](**(self.arguments if arguments is None else arguments))
            if isinstance(result, attnviz.Inspection):
                result.view()
        except Exception as error:
            return error
        return None


def odd_calls() -> list[OddCall]:
    """Every keyword of every function with every odd value, but for odd functions of the user."""
    found = []
    for name, (function, _) in calls().items():
        parameters = python.signature(function).parameters.values()
        accepted = [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]
        for keyword in dict.fromkeys([*accepted, "odd"] if name[-1] != "]" else accepted):
            found += [
                OddCall(name, keyword, number)
                for number, value in enumerate(ODD)
                if keyword != "track" or not callable(value)
            ]
    return found


def sampled(every: int) -> list[OddCall]:
    """One of so many odd calls, the same ones in each run; all of them if the environment says so.

    So each keyword gets one or two of the odd values.
    """
    return odd_calls()[:: 1 if os.environ.get("ATTNVIZ_ALL_ODD_CALLS") else every]


@pytest.mark.filterwarnings("ignore")  # of odd dpi and dtypes
def test_no_odd_call_raises_an_error_of_python() -> None:
    chosen = sampled(59)
    errors = {call: call.error() for call in chosen}

    assert len(chosen) > 300
    assert {call: e for call, e in errors.items() if e is not None and not is_two_lines(e)} == {}


NAMED_VALUE = re.compile(
    r"""\b([a-z_]+)=("[^"]*"|\[[^]]*\]|\{[^}]*\}|\([^)]*\)|-?[\w.]+(?:\([^)]*\))?)"""
)
LEFT_OUT = re.compile(r"leave '?(?!it\b)(\w+)(?:=\w+)?'? out")
WHOLE_CALL = re.compile(r"(?<![=\w.])[\w.]+\([^)]*\)")
NEAREST = re.compile("did you mean '([^']*)'")
TRAINING = ("learn", "compare_learning", "rank")  # take long where nothing is wrong
MOST_FOLLOWED = 500  # a larger number takes long to compute, and is as valid


def hinted(call: OddCall, error: AttnvizError) -> Iterator[Arguments]:
    """The arguments of a call with each value that a hint names."""
    arguments = call.arguments
    is_name = str(error).startswith("there is no keyword")
    for nearest in NEAREST.findall(error.hint):
        if is_name:
            yield {
                nearest if key == call.keyword else key: value for key, value in arguments.items()
            }
        elif call.name not in TRAINING:
            yield {**arguments, call.keyword: nearest}
    if call.name in TRAINING:
        return
    left_out = {*LEFT_OUT.findall(error.hint)}
    if left_out:
        yield {name: value for name, value in arguments.items() if name not in left_out}
    names = {"attnviz": attnviz, "torch": torch, **tiny()}
    values = {
        name: eval(text, names)
        for name, text in NAMED_VALUE.findall(WHOLE_CALL.sub("", error.hint))
        if "…" not in text and text not in ("lambda", "axes")
    }
    values = {k: v for k, v in values.items() if not isinstance(v, int) or v <= MOST_FOLLOWED}
    values = {} if left_out & {*arguments} else values
    for given in [values] if "both" in error.hint and values else [{k: values[k]} for k in values]:
        left_out |= {f"{name}s" for name in given}  # layers=[1] is layer=[1]
        yield {k: v for k, v in arguments.items() if k not in left_out} | given


def same_complaint(before: AttnvizError, after: Exception | None) -> bool:
    """Whether following a hint changed nothing, or led to what a function never accepts."""
    never = ("there is no keyword", "decides that itself")
    if not isinstance(after, AttnvizError):
        return after is not None
    return str(after) == str(before) or any(words in str(after) for words in never)


@pytest.mark.filterwarnings("ignore")
def test_every_hint_that_is_followed_mends_what_it_is_about() -> None:
    """With the value that the hint names, this complaint is gone; there may be another one."""
    followed, failed = 0, {}
    for call in sampled(199):
        if isinstance(error := call.error(), AttnvizError):
            for arguments in hinted(call, error):
                followed += 1
                if same_complaint(error, after := call.error(arguments)):
                    failed[call, error.hint] = str(after)

    assert followed > 15
    assert failed == {}


GUESSED_NAMES: dict[str, tuple[Callable[[], Any], str]] = {
    "tilte": (lambda: small().heatmap(tilte="x"), "did you mean 'title'?"),  # type: ignore[call-overload]
    "cmap": (lambda: small().heatmap(cmap="magma"), "did you mean 'colors'?"),  # type: ignore[call-overload]
    "point": (lambda: small().heatmap(point=8), "did you mean 'points'?"),  # type: ignore[call-overload]
    "layer": (
        lambda: attnviz.trace(STORY, model="minilm", layer=5),  # type: ignore[call-arg]
        "did you mean 'kept'?",
    ),
    "layer of random vectors": (
        lambda: attnviz.trace(STORY, layer=5),  # type: ignore[call-arg]
        "did you mean 'layers'?",
    ),
    "metric": (
        lambda: attnviz.compare_models(STORY, "minilm", "minilm", metric=3),  # type: ignore[call-arg]
        "known: text, a, b, settings, names, layer, head, query, tokenizer, device, dtype, seed, "
        "trust_remote_code, attention, target, generate, chat, truncate, without, stream, "
        "memory_budget, resolution, pool",
    ),
    "heads of a corpus": (
        lambda: attnviz.survey([STORY], heads=3),  # type: ignore[call-arg]
        "known: texts, settings, model, tokenizer, device, dtype, seed, trust_remote_code",
    ),
    "model": (
        lambda: attnviz.trace(STORY, model="bert-base"),
        "known: toy, reverse, sort, induction, brackets, agreement, pronouns, minilm, smollm2; or "
        "a folder with a model in it; or owner/name of a model on a hub",
    ),
}


@pytest.mark.parametrize(("call", "hint"), GUESSED_NAMES.values(), ids=[*GUESSED_NAMES])
def test_the_nearest_name_is_close_and_accepted(call: Callable[[], Any], hint: str) -> None:
    with pytest.raises(AttnvizError) as caught:
        call()
    assert caught.value.hint == hint


CLASSES = [
    each
    for each in (*(getattr(attnviz, name) for name in attnviz.__all__), *IN_MODULES)
    if isinstance(each, type) and each not in (AttnvizError, Choices, attnviz.Settings)
]


@pytest.mark.parametrize("exported", CLASSES)
def test_an_exported_class_says_what_it_needs(exported: type) -> None:
    name = exported.__name__
    for arguments in ((), (3,) * 20):
        with pytest.raises(AttnvizError) as caught:
            exported(*arguments)
        assert str(caught.value).startswith((f"{name}() needs ", f"{name}() takes "))


@pytest.mark.parametrize(
    ("call", "problem", "hint"),
    [
        (
            lambda: attnviz.survey(["a", None]),  # type: ignore[list-item]
            "texts[1] is None, and should be a text",
            "change texts[1], or leave it out",
        ),
        (
            lambda: attnviz.pairs([("a", "b", 5, "c", "d")]),  # type: ignore[list-item]
            "source[0][2] is 5, and should be a text",
            "change source[0][2], or leave it out",
        ),
        (
            lambda: attnviz.inspect(""),
            "the text is empty",
            'give a sentence, such as: trace("I am learning this")',
        ),
        (
            lambda: rank("minilm"),
            "'minilm' is a trained transformer, whose heads are ranked on your own texts",
            'give a file with a text on each line: head_effects(Path("texts.txt"), '
            'model="minilm"); for one text, inspect("…", model="minilm", by="effect")',
        ),
        (
            lambda: attnviz.compare(animal()),
            "the trained model 'minilm' decides how it attends, so nothing can be compared by "
            "scale",
            'give two sentences: compare_sentences("…", "…", model="minilm")',
        ),
        (
            lambda: attnviz.film([small(), small()], seconds=3),
            "'seconds' is about a file, and no path is given",
            'give one: film(traces, "run.gif"); or leave it to .save() of the film',
        ),
        (
            lambda: attnviz.film([small(), small()], "run.gif", seconds=0),
            "seconds is 0, and must be from 0.1 to 60",
            "try seconds=0.1",
        ),
        (
            lambda: small().to_csv("weights.json"),
            "to_csv() writes a .csv file, and 'weights.json' is none",
            'try to_csv("weights.csv"); other kinds of files are for save()',
        ),
        (
            lambda: attnviz.from_weights(np.eye(2, dtype=complex), ["I", "am"]),
            "the weights cannot be read as numbers",
            "give a tensor, an array, rows of numbers, or outputs.attentions of a model",
        ),
    ],
)
def test_an_error_says_the_true_reason(call: Callable[[], Any], problem: str, hint: str) -> None:
    with pytest.raises(AttnvizError) as caught:
        call()
    assert (str(caught.value), caught.value.hint) == (problem, hint)


def test_a_path_is_a_file_to_read_wherever_a_text_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "story.txt"
    path.write_text("I am here\n")
    other = tmp_path / "other.txt"
    other.write_text("I was here")

    assert attnviz.trace(path).text == attnviz.steps(path).trace.text == "I am here"
    assert attnviz.inspect(path, **tiny()).trace.text == "I am here"
    assert attnviz.compare(path, other=other).alternatives[1].tokens.text == "I was here"
    both = attnviz.compare_sentences(path, other, **tiny())
    assert (both.first.text, both.second.text) == ("I am here", "I was here")
    assert attnviz.survey(path, **tiny()).lines == attnviz.survey(str(path), **tiny()).lines == 1
    assert attnviz.head_effects(path, **tiny()).texts == 1
    assert attnviz.trace(str(path)).text == str(path)


def test_a_film_keeps_the_heads_that_it_was_made_for() -> None:
    film = attnviz.film([small(), small()], layer=1, head=0)

    assert len(film.view().picture.groups[0].panels) == 2
    assert len(film.view(layer=0).picture.groups[0].panels) == 4


def test_numbers_are_written_in_cells_of_own_axes() -> None:
    ax = Figure().subplots()
    attnviz.trace("I am", variant="causal").heatmap(ax=ax, numbers=True)
    found = {(*map(round, each.get_position()),): each.get_text() for each in ax.texts}

    assert {place: text for place, text in found.items() if text} == {
        (0, 0): "1.0",
        (0, 1): ".03",
        (1, 1): ".97",
    }


@pytest.mark.parametrize(
    ("keywords", "options"),
    [(SettingKeywords, Settings), (LookingKeywords, InspectOptions), (LookKeywords, Look)],
)
def test_keywords_are_the_fields_of_the_options(keywords: type, options: type) -> None:
    """With every type that a field has: a keyword may have others, too, but for names of heads."""
    names = {field.name: str(field.type) for field in fields(options)}
    written = {name: each.__forward_arg__ for name, each in keywords.__annotations__.items()}
    narrower = {"layer": {"str"}}  # a text of numbers is for command lines

    assert {*written} == {*names}
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
        ("attnviz run TEXT --model m, or --layer 0", 'trace("…", model="m"), or layer=0'),
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
        "model": repr(rank("reverse").ranking),
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
    assert [*both.to_dataframe()][4:] == ["step_0", "step_9", "others"]
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
