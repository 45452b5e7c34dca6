"""Calls as people guess them: they work, or say in two lines what is wrong and what to try."""

from __future__ import annotations

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
from attnviz.wings.corpora.effects import CorpusEffects
from attnviz.wording.keywords import LookKeywords
from tests import not_none
from tests.conftest import ROOT
from tests.small_transformers import OF_GPT, byte_level

STORY = "The animal was too tired because it slept"
MODELS = ROOT / "attnviz" / "traces" / "models"
WEIGHTS = torch.tensor([[1.0, 0.0], [0.5, 0.5]])


@cache
def animal_trace() -> Trace:
    """The sentence in MiniLM: 6 layers of 12 heads."""
    return attnviz.trace(STORY, model="minilm")


@cache
def small_trace() -> Trace:
    """A sentence of two tokens with random vectors: 2 layers of 2 heads."""
    return attnviz.trace("I am", heads=2, layers=2)


def inspect_link() -> attnviz.Inspection:
    return attnviz.inspect(animal_trace(), source="it", to="animal")


@cache
def small_survey() -> attnviz.Survey:
    return attnviz.survey(["She is not here yet.", "It is late."])


@cache
def small_pairs() -> attnviz.MinimalPairs:
    return attnviz.pairs([("The dog saw it", "The dog hid it", "it", "dog", "The")])


@cache
def small_effects() -> CorpusEffects:
    return attnviz.head_effects([STORY, "It was late"], layer=5, head=[10, 11], pairs=2)


@cache
def small_film() -> attnviz.Film:
    traces = [attnviz.trace("I am", heads=2, layers=2, seed=seed) for seed in (1, 2)]
    return attnviz.film(traces, names=["before", "after"])


@cache
def compare_small_sentences() -> TraceComparison:
    return attnviz.compare_sentences(animal_trace(), "The animal was too wide because it slept")


GUESSED_CALLS: dict[
    str, Callable[[], Any]
] = {  # of a review, by somebody who had read no documentation
    "trace[5, 11]": lambda: animal_trace()[5, 11],
    "trace['L5H11']": lambda: animal_trace()["L5H11"],
    "trace[5]": lambda: animal_trace()[5],
    "trace[:, 11]": lambda: animal_trace()[:, 11],
    "for layer in trace": lambda: [[*layer] for layer in animal_trace()],
    "len(trace)": lambda: len(animal_trace()),
    "trace.shape": lambda: animal_trace().shape,
    "trace.n_layers": lambda: animal_trace().n_layers,
    "trace.n_heads": lambda: animal_trace().n_heads,
    "trace.tokens[3]": lambda: animal_trace().tokens[3],
    "list(trace.tokens)": lambda: list(animal_trace().tokens),
    "len(trace.tokens)": lambda: len(animal_trace().tokens),
    "trace[5, 11, 'it']": lambda: animal_trace()[5, 11, "it"],
    "trace['L5H11', 'it', 'animal']": lambda: animal_trace()["L5H11", "it", "animal"],
    "trace[..., 0]": lambda: animal_trace()[..., 0],
    "trace.top(5)": lambda: animal_trace().top(5),
    "trace.ranking": lambda: animal_trace().ranking,
    "trace.attentions[5][11]": lambda: animal_trace().attentions[5][11],
    "trace.tokens['it']": lambda: animal_trace().tokens["it"],
    "trace.tokens.index('it')": lambda: animal_trace().tokens.index("it"),
    "trace.tokens[2:5]": lambda: animal_trace().tokens[2:5],
    "layer.shape": lambda: animal_trace()[5].shape,
    "inspect()[5, 11]": lambda: attnviz.inspect(animal_trace())[5, 11].weights,
    "np.asarray(inspect()[5, 11])": lambda: np.asarray(attnviz.inspect(animal_trace())[5, 11]),
    "inspect().weights": lambda: attnviz.inspect(animal_trace()).weights[5, 11],
    "inspect().shape": lambda: attnviz.inspect(animal_trace()).shape,
    "inspect(query=-1)": lambda: attnviz.inspect(animal_trace(), query=-1).view(),
    "survey[0, 2]": lambda: small_survey()[0, 2],
    "survey['L0H2']": lambda: small_survey()["L0H2"],
    "for head in survey": lambda: [head.name for head in small_survey()],
    "survey.top(5)": lambda: small_survey().top(5),
    "survey.ranking, len, shape": lambda: (
        small_survey().ranking,
        len(small_survey()),
        small_survey().shape,
    ),
    "pairs()[0, 2]": lambda: small_pairs()[0, 2],
    "for head in pairs()": lambda: [head.name for head in small_pairs()],
    "pairs().top(3)": lambda: small_pairs().top(3),
    "effects[5, 11]": lambda: small_effects()[5, 11],
    "effects['L5H11']": lambda: small_effects()["L5H11"],
    "effects.top(1)": lambda: small_effects().top(1),
    "list(effects)": lambda: [*small_effects()],
    "compare_sentences()[4, 9]": lambda: compare_small_sentences()[4, 9],
    "compare_sentences().shape": lambda: compare_small_sentences().shape,
    "film[0], film[-1]": lambda: (small_film()[0], small_film()[-1]),
    "film['after', 1, 0, 'am']": lambda: small_film()["after", 1, 0, "am"],
    "len(film), list(film)": lambda: (len(small_film()), [*small_film()]),
    "film.top(1)": lambda: small_film().top(1),
    "for step in steps()": lambda: [*attnviz.steps("I am")],
    "compare()[0]": lambda: attnviz.compare("I am")[0],
    "trace.layers[5].heads[11]": lambda: animal_trace().layers[5].heads[11],  # type: ignore[index]
    "trace.layers[5][11]": lambda: animal_trace().layers[5][11],
    "trace.layers[5].weights.shape": lambda: animal_trace().layers[5].weights.shape,
    "np.asarray(trace)": lambda: np.asarray(animal_trace()),
    "np.asarray(layer.weights)": lambda: np.asarray(animal_trace().layers[5].weights),
    "trace.numpy()": lambda: animal_trace().numpy(),
    "trace.to_dataframe()": lambda: small_trace().to_dataframe(),
    "trace.to_csv()": lambda: small_trace().to_csv(),
    "trace.show()": lambda: small_trace().show(),
    "attnviz.load(path)": lambda: attnviz.load("saved.npz"),
    "attnviz.models()": lambda: attnviz.models(),
    "inspect().ranking": lambda: inspect_link().ranking,
    "inspect().top(5)": lambda: inspect_link().top(5),
    "inspect().heads": lambda: attnviz.inspect(animal_trace()).heads,  # type: ignore[attr-defined]
    "heatmap(ax=ax)": lambda: small_trace().heatmap(ax=Figure().subplots()),
    "heatmap(cmap=…)": lambda: small_trace().heatmap(cmap="magma"),  # type: ignore[call-overload]
    "heatmap(colors=…)": lambda: small_trace().heatmap(colors="magma"),
    "heatmap(theme=…)": lambda: small_trace().heatmap(theme="dark"),
    "inspect(query=7)": lambda: attnviz.inspect(animal_trace(), query=7).view(),
    "inspect(source=8, to=3)": lambda: attnviz.inspect(animal_trace(), source=8, to=3).view(),
    "inspect(layer=[4, 5])": lambda: attnviz.inspect(animal_trace(), layer=[4, 5]).maps,
    "inspect(layer=slice(4, None))": lambda: (
        attnviz.inspect(animal_trace(), layer=slice(4, None)).maps
    ),
    "inspect(heads=[1, 11])": lambda: attnviz.inspect(animal_trace(), heads=[1, 11]).maps,  # type: ignore[arg-type]
    "inspect(head='L5H11')": lambda: attnviz.inspect(animal_trace(), head="L5H11").view(),
    "inspect(layr=5)": lambda: attnviz.inspect(STORY, layr=5),  # type: ignore[call-arg]
    "inspect(layer='five')": lambda: attnviz.inspect(STORY, layer="five"),  # type: ignore[arg-type]
    "inspect(model, text)": lambda: attnviz.inspect(torch.nn.Linear(2, 2), STORY),  # type: ignore[arg-type]
    "compare(a, b)": lambda: attnviz.compare(STORY, "It slept"),  # type: ignore[call-overload]
    "compare_sentences(a, b)": lambda: attnviz.compare_sentences(
        animal_trace(), "The animal was too wide because it slept"
    ),
    "trace(model=Path(…))": lambda: attnviz.trace("a b c d e f g h", model=MODELS / "reverse"),
    "trace(model=module)": lambda: attnviz.trace(STORY, model=torch.nn.Linear(2, 2)),
    "trace(dtype=torch.float64)": lambda: attnviz.trace("I am", dtype=torch.float64),
    "trace(device=torch.device('cpu'))": lambda: attnviz.trace("I am", device=torch.device("cpu")),
    "trace(without=['L0H0'])": lambda: attnviz.trace("I am", heads=2, without=["L0H0"]),
    "save(size='3.3x3.3')": lambda: small_trace().save("figure.png", size="3.3x3.3"),
    "trace(['I', 'am'])": lambda: attnviz.trace(["I", "am"]),  # type: ignore[arg-type]
    "from_weights(trace.weights, tokens)": lambda: attnviz.from_weights(
        animal_trace().weights, list(animal_trace().tokens)
    ),
}
REFUSED_BY_PYTHON = {"trace.layers[5].heads[11]", "inspect().heads"}  # which only Python refuses


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


@pytest.mark.slow("calls")
@pytest.mark.filterwarnings("ignore::attnviz.errors.Note")
def test_of_84_guesses_82_work_or_are_answered_in_two_lines() -> None:
    small_trace().save("saved.npz")
    errors_by_guess = {}
    for name, call in GUESSED_CALLS.items():
        try:
            call()
        except Exception as error:
            errors_by_guess[name] = error

    two_lines = {name for name, error in errors_by_guess.items() if is_two_lines(error)}
    assert len(GUESSED_CALLS) == 84
    assert errors_by_guess.keys() - two_lines == REFUSED_BY_PYTHON
    assert len(two_lines) <= 14


ODD_VALUES: tuple[Any, ...] = (
    *(None, 3, -1, 10**30, 2.5, float("nan"), True, "", "zebra", "--layer 0", b"x", [], [1], ["x"]),
    *({}, {"a": 1}, object(), int, slice(1), slice("a"), Path("x"), Ellipsis, 1 + 2j, (1, 2, 3)),
    *(torch.zeros(2), np.zeros((2, 2)), np.int64(1), print),
)


Arguments = dict[str, Any]
Call = tuple[Callable[..., Any], Arguments]  # with usual arguments


@cache
def tiny_model() -> Arguments:
    """A model of two layers in memory and its tokenizer, as keywords."""
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
def calls_by_name() -> dict[str, Call]:
    """Every public function and class, and methods of their results, each with usual arguments."""
    texts = ["I am tired", "It is late"]
    pair = "The animal was because", "The animal too because", "because", "The", "animal"
    weights = {"weights": WEIGHTS, "tokens": ["I", "am"]}
    usual_arguments: dict[str, Arguments] = {
        "trace": {"text": "I am"},
        "inspect": {"text": small_trace()},
        "compare": {"text": "I am"},
        "compare_sentences": {"first": small_trace(), "second": small_trace()},
        "compare_models": {"text": "I am", "a": tiny_model()["model"], "b": tiny_model()["model"]}
        | {"tokenizer": tiny_model()["tokenizer"]},
        "compare_scores": {"scores": WEIGHTS[None], "width": 4},
        "steps": {"text": "I am"},
        "from_weights": weights,
        "rank": {"model": "zebra"},
        "learn": {"task": "zebra"},
        "compare_learning": {"task": "zebra"},
        "draw": {"trace": small_trace()},
        "render": {"view": small_trace().view(), "suffix": ".csv"},
        "film": {"traces": [small_trace(), small_trace()]},
        "survey": {"texts": texts, **tiny_model()},
        "pairs": {"source": [pair], **tiny_model()},
        "head_effects": {"texts": texts, **tiny_model()},
    }
    public_calls = {
        name: (getattr(attnviz, name), usual_arguments.get(name, {})) for name in attnviz.__all__
    }
    del public_calls["AttnvizError"]  # what all of these raise
    trace_of_model = attnviz.trace("I am tired", **tiny_model())
    link = attnviz.inspect(trace_of_model, source=0, to=0)
    methods = {
        "inspect a model": (attnviz.inspect, {"text": "I am", **tiny_model()}),
        "inspect effects": (attnviz.inspect, {"text": trace_of_model, "by": "effect"}),
        "compare two traces": (attnviz.compare, {"text": small_trace(), "settings": small_trace()}),
        "trace.view": (small_trace().view, {}),
        "trace.heatmap": (small_trace().heatmap, {"head": 0, "layer": 0}),
        "trace.to_csv": (small_trace().to_csv, {}),
        "trace.to_dict": (small_trace().to_dict, {}),
        "trace.numpy": (small_trace().numpy, {}),
        "view.render": (small_trace().view().render, {"suffix": ".csv"}),
        "inspection.top": (link.top, {}),
        "comparison.view": (attnviz.compare("I am").view, {}),
        "film.view": (attnviz.film([small_trace(), small_trace()]).view, {}),
        "two.link": (
            attnviz.compare_sentences(small_trace(), small_trace(), names=("a", "b")).link,
            {},
        ),
    }
    indices: dict[str, Call] = {
        "trace[]": (lambda odd: small_trace()[odd], {}),
        "trace[0][]": (lambda odd: small_trace()[0][odd], {}),
        "trace[0, 0, ]": (lambda odd: small_trace()[0, 0, odd], {}),
        "layer.weights[]": (lambda odd: small_trace().layers[0].weights[odd], {}),
        "tokens[]": (lambda odd: small_trace().tokens[odd], {}),
        "tokens.index[]": (lambda name: small_trace().tokens.index(name), {}),
        "survey[]": (lambda odd: small_survey()[odd], {}),
        "survey[0, ]": (lambda odd: small_survey()[0, odd], {}),
        "inspect[]": (lambda odd: attnviz.inspect(small_trace())[odd], {}),
        "inspect[0, 0][]": (lambda odd: attnviz.inspect(small_trace())[0, 0][odd], {}),
        "film[]": (lambda odd: small_film()[odd], {}),
    }
    return public_calls | methods | indices


@dataclass(frozen=True)
class OddCall:
    """A call with one odd value."""

    name: str  # of the function
    keyword: str
    number: int  # of the value in ODD

    @property
    def arguments(self) -> Arguments:
        """The usual arguments, with the odd one."""
        return {**calls_by_name()[self.name][1], self.keyword: ODD_VALUES[self.number]}

    def error(self, arguments: Arguments | None = None) -> Exception | None:
        """The error of the call, or of one with other arguments; None without any."""
        try:
            result = calls_by_name()[self.name][0](
                **(self.arguments if arguments is None else arguments)
            )
            if isinstance(result, attnviz.Inspection):
                result.view()
        except Exception as error:
            return error
        return None


def odd_calls() -> list[OddCall]:
    """Every keyword of every function with every odd value, except callables for `track`."""
    calls_found = []
    for name, (function, _) in calls_by_name().items():
        parameters = python.signature(function).parameters.values()
        keyword_names = [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]
        for keyword in dict.fromkeys([*keyword_names, "odd"] if name[-1] != "]" else keyword_names):
            calls_found += [
                OddCall(name, keyword, number)
                for number, value in enumerate(ODD_VALUES)
                if keyword != "track" or not callable(value)
            ]
    return calls_found


def sample_odd_calls(interval: int) -> list[OddCall]:
    """Every `interval`-th odd call, the same in each run; all with ATTNVIZ_ALL_ODD_CALLS set.

    So each keyword gets one or two of the odd values.
    """
    return odd_calls()[:: 1 if os.environ.get("ATTNVIZ_ALL_ODD_CALLS") else interval]


@pytest.mark.filterwarnings("ignore")  # of odd dpi and dtypes
def test_no_odd_call_raises_an_error_of_python() -> None:
    odd_calls_tried = sample_odd_calls(59)
    errors = {call: call.error() for call in odd_calls_tried}

    assert len(odd_calls_tried) > 300
    assert {call: e for call, e in errors.items() if e is not None and not is_two_lines(e)} == {}


NAMED_VALUE = re.compile(
    r"""\b([a-z_]+)=("[^"]*"|\[[^]]*\]|\{[^}]*\}|\([^)]*\)|-?[\w.]+(?:\([^)]*\))?)"""
)
LEAVE_OUT = re.compile(r"leave '?(?!it\b)(\w+)(?:=\S+)?'? out")
WHOLE_CALL = re.compile(r"(?<![=\w.])[\w.]+\([^)]*\)")
NEAREST = re.compile("did you mean '([^']*)'")
TRAINING = ("learn", "compare_learning", "rank")  # take long where nothing is wrong
LARGEST_NUMBER_TRIED = 500  # a larger number takes long to compute, and is as valid


def arguments_of_hints(call: OddCall, error: AttnvizError) -> Iterator[Arguments]:
    """The arguments of a call with each value that a hint names."""
    arguments = call.arguments
    is_name = str(error).startswith("there is no keyword")
    for nearest_name in NEAREST.findall(error.hint):
        if is_name:
            yield {
                nearest_name if key == call.keyword else key: value
                for key, value in arguments.items()
            }
        elif call.name not in TRAINING:
            yield {**arguments, call.keyword: nearest_name}
    if call.name in TRAINING:
        return
    left_out = {*LEAVE_OUT.findall(error.hint)}
    if left_out:
        yield {name: value for name, value in arguments.items() if name not in left_out}
    names = {"attnviz": attnviz, "torch": torch, **tiny_model()}
    values = {
        name: eval(text, names)
        for name, text in NAMED_VALUE.findall(WHOLE_CALL.sub("", error.hint))
        if "…" not in text and text not in ("lambda", "axes")
    }
    values = {
        k: v for k, v in values.items() if not isinstance(v, int) or v <= LARGEST_NUMBER_TRIED
    }
    values = {} if left_out & {*arguments} else values
    for values_together in (
        [values] if "both" in error.hint and values else [{k: values[k]} for k in values]
    ):
        left_out |= {f"{name}s" for name in values_together}  # layers=[1] is layer=[1]
        yield {k: v for k, v in arguments.items() if k not in left_out} | values_together


def is_same_complaint(before: AttnvizError, after: Exception | None) -> bool:
    """Whether following a hint changed nothing, or led to what a function never accepts."""
    hopeless_phrases = ("there is no keyword", "decides that itself")
    if not isinstance(after, AttnvizError):
        return after is not None
    return str(after) == str(before) or any(words in str(after) for words in hopeless_phrases)


@pytest.mark.slow("calls")
@pytest.mark.filterwarnings("ignore")
def test_every_hint_that_is_followed_mends_what_it_is_about() -> None:
    """With the value that the hint names, this complaint is gone; there may be another one."""
    followed_count, failed_hints = 0, {}
    for call in sample_odd_calls(199):
        if isinstance(error := call.error(), AttnvizError):
            for arguments in arguments_of_hints(call, error):
                followed_count += 1
                if is_same_complaint(error, after := call.error(arguments)):
                    failed_hints[call, error.hint] = str(after)

    assert followed_count > 15
    assert failed_hints == {}


HINTS_OF_WRONG_NAMES: dict[str, tuple[Callable[[], Any], str]] = {
    "tilte": (lambda: small_trace().heatmap(tilte="x"), "did you mean 'title'?"),  # type: ignore[call-overload]
    "cmap": (lambda: small_trace().heatmap(cmap="magma"), "did you mean 'colors'?"),  # type: ignore[call-overload]
    "point": (lambda: small_trace().heatmap(point=8), "did you mean 'points'?"),  # type: ignore[call-overload]
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


@pytest.mark.parametrize(
    ("call", "hint"), HINTS_OF_WRONG_NAMES.values(), ids=[*HINTS_OF_WRONG_NAMES]
)
def test_the_nearest_name_is_close_and_accepted(call: Callable[[], Any], hint: str) -> None:
    with pytest.raises(AttnvizError) as error:
        call()
    assert error.value.hint == hint


CLASSES = [
    each
    for each in (*(getattr(attnviz, name) for name in attnviz.__all__), *IN_MODULES)
    if isinstance(each, type) and each not in (AttnvizError, Choices, attnviz.Settings)
]


@pytest.mark.parametrize("exported", CLASSES)
def test_an_exported_class_says_what_it_needs(exported: type) -> None:
    name = exported.__name__
    for arguments in ((), (3,) * 20):
        with pytest.raises(AttnvizError) as error:
            exported(*arguments)
        assert str(error.value).startswith((f"{name}() needs ", f"{name}() takes "))


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
            lambda: attnviz.compare(animal_trace()),
            "the trained model 'minilm' decides how it attends, so nothing can be compared by "
            "scale",
            'give two sentences: compare_sentences("…", "…", model="minilm")',
        ),
        (
            lambda: attnviz.film([small_trace(), small_trace()], seconds=3),
            "'seconds' is about a file, and no path is given",
            'give one: film(traces, "run.gif"); or leave it to .save() of the film',
        ),
        (
            lambda: attnviz.film([small_trace(), small_trace()], "run.gif", seconds=0),
            "seconds is 0, and must be from 0.1 to 60",
            "try seconds=0.1",
        ),
        (
            lambda: small_trace().to_csv("weights.json"),
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
    with pytest.raises(AttnvizError) as error:
        call()
    assert (str(error.value), error.value.hint) == (problem, hint)


def test_a_path_is_a_file_to_read_wherever_a_text_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "story.txt"
    path.write_text("I am here\n")
    other = tmp_path / "other.txt"
    other.write_text("I was here")

    assert attnviz.trace(path).text == attnviz.steps(path).trace.text == "I am here"
    assert attnviz.inspect(path, **tiny_model()).trace.text == "I am here"
    assert attnviz.compare(path, other=other).alternatives[1].tokens.text == "I was here"
    comparison = attnviz.compare_sentences(path, other, **tiny_model())
    assert (comparison.first.text, comparison.second.text) == ("I am here", "I was here")
    assert (
        attnviz.survey(path, **tiny_model()).lines
        == attnviz.survey(str(path), **tiny_model()).lines
        == 1
    )
    assert attnviz.head_effects(path, **tiny_model()).texts == 1
    assert attnviz.trace(str(path)).text == str(path)


def test_a_film_keeps_the_heads_that_it_was_made_for() -> None:
    film = attnviz.film([small_trace(), small_trace()], layer=1, head=0)

    assert len(film.view().picture.groups[0].panels) == 2
    assert len(film.view(layer=0).picture.groups[0].panels) == 4


def test_numbers_are_written_in_cells_of_own_axes() -> None:
    ax = Figure().subplots()
    attnviz.trace("I am", variant="causal").heatmap(ax=ax, numbers=True)
    texts_by_position = {(*map(round, each.get_position()),): each.get_text() for each in ax.texts}

    assert {place: text for place, text in texts_by_position.items() if text} == {
        (0, 0): "1.0",
        (0, 1): ".03",
        (1, 1): ".97",
    }


@pytest.mark.parametrize(
    ("keywords", "options"),
    [(SettingKeywords, Settings), (LookingKeywords, InspectOptions), (LookKeywords, Look)],
)
def test_keywords_are_the_fields_of_the_options(keywords: type, options: type) -> None:
    """A keyword accepts every type of its field, and may accept more."""
    names = {field.name: str(field.type) for field in fields(options)}
    annotations = {name: each.__forward_arg__ for name, each in keywords.__annotations__.items()}
    narrower = {"layer": {"str"}}  # a text of numbers is for command lines

    assert {*annotations} == {*names}
    for name, types in names.items():
        missing = set(types.split(" | ")) - set(re.split(r" \| ", annotations[name]))
        assert not missing - narrower.get(name, set()) or annotations[name] == "Any", name


def test_keywords_of_views_are_those_of_all_results() -> None:
    """Except those that only commands pass."""
    keywords_taken: set[str] = set()
    for path in VIEW_FUNCTIONS.values():
        _, *parameters = python.signature(pkgutil.resolve_name(path)).parameters.values()
        keywords_taken |= {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    steps = python.signature(attnviz.steps).parameters  # which a worked example takes, too
    keywords_taken |= {"key", "step", "digits", "full"} & steps.keys()

    assert keywords_taken - {"command", "line", "trace", "track"} == {*ViewKeywords.__annotations__}
    assert {*DrawKeywords.__annotations__} == {
        *ViewKeywords.__annotations__,
        *LookKeywords.__annotations__,
    }


def test_a_notebook_completes_every_keyword() -> None:
    parameters = python.signature(attnviz.inspect).parameters

    assert [*parameters][:2] == ["text", "settings"]
    assert {*parameters} >= SettingKeywords.__annotations__.keys() | LookingKeywords.__annotations__
    assert "theme" in python.signature(small_trace().heatmap).parameters


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
    inspection = globals()["attnviz"].inspect(animal_trace(), layer=[4, 5], head=["L5H11", 3])
    line = "--layer 4,5 --head L5H11,3"

    assert [each.name for each in inspection.maps] == ["L4H3", "L5H3", "L5H11"]
    assert inspection.view().command.line.endswith(line)
    output = attnviz("inspect", STORY, *line.split()).out
    assert [name for name in ("L4H3", "L5H3", "L5H11", "L4H4") if name in output] == [
        "L4H3",
        "L5H3",
        "L5H11",
    ]


@pytest.mark.parametrize(
    ("keywords", "names"),
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
    keywords: dict[str, Any], names: list[str]
) -> None:
    assert [each.name for each in attnviz.inspect(animal_trace(), **keywords).maps] == names


def test_only_the_layers_of_named_heads_are_kept() -> None:
    inspection = attnviz.inspect(STORY, head=["L5H11", "L3H1"])

    assert [layer.layer for layer in inspection.trace.layers] == [3, 5]


def test_a_head_is_the_same_by_every_index() -> None:
    trace, all_weights = animal_trace(), animal_trace().weights
    heads_of_layer = torch.stack([*trace[5]])
    for weights in (trace[5, 11], trace["L5H11"], trace["l5h11"], trace[-1, -1], trace[5][11],
                    trace[5]["H11"], trace["L5"][11], trace.layers[5].weights[11],
                    trace[np.int64(5), torch.tensor(11)]):  # fmt: skip
        assert torch.equal(weights, all_weights[5, 11])
    assert torch.equal(trace[5, :], heads_of_layer)
    assert torch.equal(trace[:, 11], all_weights[:, 11])
    assert torch.equal(trace[...], all_weights)
    assert torch.equal(trace[[5, 3], 11], all_weights[[5, 3], 11])
    assert torch.equal(trace[["L5H11", "L3H1"]], all_weights[[5, 3], [11, 1]])
    assert torch.equal(trace[2:4, 1:3, 7], all_weights[2:4, 1:3, 7])
    assert torch.equal(trace["L5H11", 7, 2], all_weights[5, 11, 7, 2])
    assert trace[2:4] == trace.layers[2:4]
    assert (np.asarray(trace) == all_weights.numpy()).all()
    assert np.asarray(trace.layers[5].weights, dtype=np.float64).dtype == np.float64
    assert trace.shape == tuple(all_weights.shape)
    assert trace.layers[5].weights.shape == tuple(all_weights.shape[1:])


def test_layers_keep_their_numbers_where_only_some_are_kept() -> None:
    partial_trace = attnviz.trace(STORY, model="minilm", kept=(2, 4))

    assert [layer.layer for layer in partial_trace] == [2, 4]
    assert torch.equal(partial_trace[4, 1], animal_trace()[4, 1])
    assert partial_trace[3:] == (partial_trace[4],)
    with pytest.raises(AttnvizError, match="there is no layer 5: the layers are 2 to 4"):
        partial_trace[5]


def test_weights_that_are_changed_leave_the_trace_as_it_is() -> None:
    small_trace()[0, 0].zero_()

    assert small_trace()[0, 0].sum() == 2


def test_tokens_are_their_labels() -> None:
    tokens = animal_trace().tokens

    assert list(tokens) == list(tokens.labels)
    assert (tokens[2], tokens[-2], tokens[1:3]) == ("animal", "slept", ("The", "animal"))
    with pytest.raises(AttnvizError, match="there is no token 99: the last one is 9"):
        tokens[99]


def test_a_row_of_a_ranking_says_what_other_tokens_give() -> None:
    first = inspect_link().top(1)[0]
    row = animal_trace()[first.name]  # the weights of each query
    others = [query for query in range(len(row)) if query not in (0, 2, 7, 9)]

    assert repr(inspect_link().top(1)) == repr(first)
    assert re.fullmatch(r'<L\dH\d+: "it" gives "animal" \.\d\d, other tokens \.\d\d>', repr(first))
    assert first.weight == pytest.approx(float(row[7, 2]))
    assert first.others.mean == pytest.approx(float(row[others, 2].mean()))
    assert len(inspect_link().ranking) == 72


def test_every_ranking_is_read_line_by_line() -> None:
    lines = {
        "query": repr(attnviz.inspect(animal_trace(), query="it").top(2)),
        "heads": repr(attnviz.inspect(animal_trace()).top(2)),
        "effects": repr(attnviz.inspect(animal_trace(), by="effect", layer=5, head=[1, 2]).ranking),
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
    assert repr(attnviz.inspect(animal_trace()).ranking).endswith("\n… and 52 more")


def test_a_dataframe_has_a_row_for_each_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tested with a stand-in for pandas, which may not be installed."""
    pandas = ModuleType("pandas")
    pandas.__spec__ = ModuleSpec("pandas", None)
    vars(pandas)["DataFrame"] = dict
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    table = attnviz.trace("I am", heads=2).to_dataframe()
    weights = attnviz.trace("I am", heads=2).weights

    assert [*table] == [
        *("layer", "head", "name", "query_position", "query", "key_position", "key", "weight"),
        "visible",
    ]
    assert table["weight"] == weights.flatten().tolist()
    assert (table["layer"], table["head"]) == ([0] * 8, [0] * 4 + [1] * 4)
    assert table["name"] == ["L0H0"] * 4 + ["L0H1"] * 4
    assert table["query_position"] == [0, 0, 1, 1] * 2
    assert table["key"] == ["I", "am"] * 4
    comparison = compare_two_traces(*small_film(), names=("step 0", "step 9"))
    assert [*comparison.to_dataframe()][6:] == ["step_0", "step_9", "others"]
    assert "query number" in (attnviz.trace("I am").to_csv() or "")


def test_without_pandas_there_is_the_text_of_a_csv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.views.view.find_spec", lambda name: None)
    with pytest.raises(AttnvizError) as error:
        small_trace().to_dataframe()

    assert str(error.value) == "a DataFrame needs pandas, which is not installed"
    assert error.value.hint.startswith("pip install pandas; or to_csv()")
    text = not_none(small_trace().to_csv())
    assert small_trace().to_csv("weights.csv") is None
    assert Path("weights.csv").read_text("utf-8") == text
    assert len(text.splitlines()) == 1 + small_trace().weights.numel()


def test_a_result_shows_its_tables(capsys: pytest.CaptureFixture[str]) -> None:
    small_trace().show(show="weights")

    assert "weights" in capsys.readouterr().out


def test_a_size_in_words_is_that_of_a_command() -> None:
    figure = small_trace().heatmap(size="3.3x2.5")

    assert figure.get_size_inches().tolist() == [3.3, 2.5]
    assert Look(size="1920x1080").dpi == 144  # type: ignore[arg-type]
