"""What heads change by a metric, in pairs and over many texts: against plain transformers."""

from __future__ import annotations

import csv
import inspect as inspect_module
import io
import json
import os
import re
import signal
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attnviz as library
from attnviz import AttnvizError, head_effects, inspect, trace
from attnviz.analysis.inspection.effects import OutputMeasure
from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.machine import files
from attnviz.traces.settings import HeadId
from attnviz.traces.trained.loading import load_transformer
from attnviz.views.grids.words_and_bars import RankedBars
from attnviz.wings.corpora import effects as corpus_effects
from attnviz.wings.corpora.effects import CorpusEffects
from attnviz.wings.corpora.mean_estimates import mean_intervals
from tests.conftest import Attnviz
from tests.small_transformers import TEXT, Saved

TEXTS = (
    *("The animal was tired", "it was too", "the street did cross the animal"),
    *("the animal was too", "it did cross the street", "was it the street", "", "  "),
)
GAP = "The animal [MASK] the street because it was too tired"
WIDTH = 4  # of a head of the small models


@contextmanager
def replace_contexts(
    model: Any, replacements: dict[HeadId, torch.Tensor | float]
) -> Iterator[None]:
    """The model's own forward pass, with parts of what goes into output projections replaced."""

    def make_hook(layer: int) -> Any:
        def hook(module: Any, arguments: Any) -> Any:
            contexts = arguments[0].clone()
            for (of_layer, head), value in replacements.items():
                if of_layer == layer:
                    contexts[..., head * WIDTH : (head + 1) * WIDTH] = value
            return (contexts,)

        return hook

    hooks = [block.attn.c_proj.register_forward_pre_hook(make_hook(layer))
             for layer, block in enumerate(model.transformer.h)]  # fmt: skip
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def logit_difference(outputs: Any) -> Any:
    """The metric of these tests; it sees what the model returns for one text."""
    assert len(outputs.logits) == 1
    return outputs.logits[0, -1, 7] - outputs.logits[0, -1, 9]


def plain_difference(folder: str, text: str, replacements: dict[HeadId, Any]) -> float:
    text_trace = trace(text, model=folder)
    model = load_transformer(text_trace.origin.settings).model
    with torch.no_grad(), replace_contexts(model, replacements):
        return float(logit_difference(model(input_ids=torch.tensor([text_trace.tokens.ids]))))


def test_a_metric_of_ones_own_ranks_heads(small_transformer: Saved) -> None:
    folder = str(small_transformer("gpt2"))
    effects = inspect(TEXT, model=folder, by="effect", metric=logit_difference, pairs=3).effects
    baseline = plain_difference(folder, TEXT, {})
    assert (effects.measured, effects.metric_name) == ("metric", "logit_difference")
    assert effects.metric == pytest.approx(baseline, abs=1e-4)
    for effect in (*effects.heads, *(pair.together for pair in effects.pairs)):
        replacements = dict.fromkeys(effect.head_ids, 0.0)
        assert effect.mean == pytest.approx(
            plain_difference(folder, TEXT, replacements) - baseline, abs=1e-4
        )
    sizes = [abs(effect.mean) for effect in effects.heads]
    assert sizes == sorted(sizes, reverse=True)


def test_pairs_are_of_the_strongest_heads_and_the_furthest_from_its_sum_comes_first(
    small_transformer: Saved,
) -> None:
    effects = inspect(TEXT, model=str(small_transformer("gpt2")), by="effect", pairs=3).effects
    strongest = {each.name: each.mean for each in effects.heads[:3]}
    assert len(effects.pairs) == 3
    for pair in effects.pairs:
        first_head, second_head = pair.together.name.split(" + ")
        assert pair.alone == (strongest[first_head], strongest[second_head])
        assert pair.beyond_sum == pytest.approx(pair.together.mean - sum(pair.alone))
    distances_from_sum = [abs(pair.beyond_sum) for pair in effects.pairs]
    assert distances_from_sum == sorted(distances_from_sum, reverse=True)


def test_two_answers_are_compared_by_their_logits(
    small_transformer: Saved, attnviz: Attnviz
) -> None:
    folder = str(small_transformer("bert"))
    answers = ("the", "was")
    effects = inspect(
        GAP, model=folder, by="effect", toward=answers[0], instead_of=answers[1]
    ).effects
    gap_trace = trace(GAP, model=folder)
    transformer = load_transformer(gap_trace.origin.settings)
    mask_position = gap_trace.tokens.labels.index("[MASK]")
    ids = transformer.tokenizer.convert_tokens_to_ids([*answers])
    with torch.no_grad():
        logits = transformer.model(input_ids=torch.tensor([gap_trace.tokens.ids])).logits[
            0, mask_position
        ]
    assert effects.metric == pytest.approx(float(logits[ids[0]] - logits[ids[1]]), abs=1e-4)
    result = attnviz(
        "inspect", GAP, "--model", folder, "--by", "effect", "--toward", "the",
        "--instead-of", "was", "--pairs", "2",
    )  # fmt: skip
    output = " ".join(result.out.split())
    top_head = effects.heads[0]
    endpoints = f"{effects.metric:.2f} to {effects.metric + top_head.mean:.2f}"
    name = "the logit of the minus the logit of was"
    assert f"{top_head.name} zeroed, {name} changes from {endpoints}, the most of 8 heads" in output
    assert "logit of the minus logit of was: change with each head zeroed" in output
    (pair,) = inspect(
        GAP, model=folder, by="effect", toward="the", instead_of="was", pairs=2
    ).effects.pairs
    digits = 2 if abs(pair.beyond_sum) >= 0.05 else 4
    direction = "above" if pair.beyond_sum > 0 else "below"
    assert (
        f"Without {pair.together.name} the change is {pair.together.mean:.{digits}f}, "
        f"{abs(pair.beyond_sum):.{digits}f} {direction} the sum of the changes without each"
        in output
    )
    row = next(line for line in result.out.splitlines() if line.startswith(pair.together.name))
    assert f" {pair.beyond_sum:.{digits}f} " in row  # the sentence and the bar: one number


def test_an_answer_says_whether_it_has_a_space_before_it(
    small_transformer: Saved,
) -> None:
    folder = str(small_transformer("gpt2"))
    inspection = inspect(TEXTS[0], model=folder, by="effect", toward="was", instead_of="it")

    assert inspection.effects.metric_name == "logit of was (without a space) minus logit of it"


def test_a_mean_over_texts_is_the_mean_of_each_text(small_transformer: Saved) -> None:
    folder = str(small_transformer("gpt2"))
    mean_effects = head_effects(TEXTS, model=folder, metric=logit_difference, pairs=2)
    texts = [text for text in TEXTS if text.strip()]
    assert (mean_effects.texts, mean_effects.empty) == (6, 2)
    single_inspections = [
        inspect(text, model=folder, by="effect", metric=logit_difference) for text in texts
    ]
    for head in mean_effects.heads:
        values = [
            each.mean
            for single in single_inspections
            for each in single.effects.heads
            if each.name == head.name
        ]
        np.testing.assert_allclose(head.values, values, atol=1e-5)
        assert head.low <= head.mean <= head.high
    (pair,) = mean_effects.pairs
    by_name = {head.name: head for head in mean_effects.heads}
    first_head, second_head = (by_name[name] for name in pair.together.name.split(" + "))
    expected = pair.together.values - first_head.values - second_head.values
    np.testing.assert_allclose(pair.beyond_sum.values, expected, atol=1e-5)


def test_a_head_that_is_off_writes_its_mean_over_all_texts(small_transformer: Saved) -> None:
    folder, head = str(small_transformer("gpt2")), (1, 2)
    texts = [text for text in TEXTS if text.strip()]
    contexts = [trace(text, model=folder).layers[1].attended.contexts[2] for text in texts]
    mean = torch.cat(contexts).mean(0)
    effects = head_effects(texts, model=folder, metric=logit_difference, ablation="mean")
    (effect,) = [each for each in effects.heads if each.head_ids == (head,)]
    expected = [
        plain_difference(folder, text, {head: mean}) - plain_difference(folder, text, {})
        for text in texts
    ]
    np.testing.assert_allclose(effect.values, expected, atol=1e-4)
    effects_without_head = head_effects(
        texts, model=folder, metric=logit_difference, without="L1H2=mean"
    )
    expected_metric = np.mean([plain_difference(folder, text, {head: mean}) for text in texts])
    assert effects_without_head.metric == pytest.approx(expected_metric, abs=1e-4)
    assert len(effects_without_head.heads) == 7


def test_texts_in_which_nothing_is_to_be_answered_are_counted(small_transformer: Saved) -> None:
    effects = head_effects([GAP, TEXT], model=str(small_transformer("bert")))
    assert (effects.measured, effects.texts, effects.unanswered) == ("answers", 1, 1)
    closing = " ".join(effects.view().closing)
    assert "1 text in which there is nothing to answer was skipped." in closing
    assert head_effects([TEXT], model=str(small_transformer("bert"))).measured == "vectors"


@pytest.fixture
def ctrl_c_raises() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also where tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def endless_texts(interrupt_at: int) -> Iterator[str]:
    """Texts of which the one with this number (counted from 1) presses Ctrl-C when it is read."""
    for number in range(1, 100_000):
        if number == interrupt_at:
            os.kill(os.getpid(), signal.SIGINT)
        yield ("The animal was tired", "", "it was too", "it did cross the street")[number % 4]
    raise AssertionError("it went on")


@pytest.mark.usefixtures("ctrl_c_raises")
def test_ctrl_c_shows_the_texts_before_it_of_an_endless_corpus(small_transformer: Saved) -> None:
    folder = str(small_transformer("gpt2"))
    effects = head_effects(endless_texts(10), model=folder, metric=logit_difference)
    uninterrupted = head_effects(
        [*islice(endless_texts(0), 10)], model=folder, metric=logit_difference
    )
    assert (effects.texts, effects.empty, effects.interrupted) == (7, 3, True)
    assert [head.mean for head in effects.heads] == [head.mean for head in uninterrupted.heads]
    assert "Stopped by Ctrl-C after 7 texts." in effects.view().closing
    assert not uninterrupted.interrupted
    with pytest.raises(KeyboardInterrupt):  # nothing is measured yet: means come first
        head_effects(endless_texts(10), model=folder, ablation="mean")


@pytest.mark.usefixtures("ctrl_c_raises")
def test_ctrl_c_leaves_the_pairs_of_the_texts_before_it(small_transformer: Saved) -> None:
    readings = []

    def track(texts: Iterable[Any]) -> Iterator[Any]:
        readings.append(texts)
        for number, text in enumerate(texts):
            if (len(readings), number) == (2, 3):
                os.kill(os.getpid(), signal.SIGINT)
            yield text

    effects = head_effects(TEXTS * 2, model=str(small_transformer("gpt2")), pairs=2, track=track)
    assert (effects.texts, effects.pair_texts, effects.interrupted) == (12, 3, True)
    assert len(effects.pairs[0].together.values) == 3
    assert "(first 3 texts)." in " ".join(effects.view().closing)


def test_means_and_pairs_are_of_the_first_texts_of_a_corpus(
    small_transformer: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [text for text in TEXTS if text.strip()]
    options: Any = {"model": str(small_transformer("gpt2")), "ablation": "mean", "pairs": 2}
    effects_of_first_texts = head_effects(texts[:3], metric=logit_difference, **options)
    monkeypatch.setattr(corpus_effects, "REPEATED_READING", 3)
    effects = head_effects(iter(texts), metric=logit_difference, **options)
    values = {head.name: head.values for head in effects.heads}
    for head in effects_of_first_texts.heads:
        np.testing.assert_allclose(values[head.name][:3], head.values, atol=1e-6)
    assert (effects.texts, effects.pair_texts) == (6, 3)


def test_the_first_text_with_answers_has_the_others_be_skipped(small_transformer: Saved) -> None:
    folder = str(small_transformer("bert"))
    effects = head_effects(iter([TEXT, TEXT, GAP, TEXT, GAP]), model=folder)
    assert (effects.measured, effects.texts, effects.unanswered, effects.repeated) == (
        "answers",
        2,
        3,
        1,
    )
    assert effects.heads[0].mean == head_effects([GAP], model=folder).heads[0].mean


def test_very_many_changes_become_means_of_neighbours_and_keep_their_mean(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(corpus_effects, "MAX_ROWS", 4)
    changes = np.random.default_rng(0).normal(size=(11, 2))
    totals = corpus_effects.ChangeTotals([((0, 0),), ((0, 1),)])
    for row in changes:
        totals.add(row)
    for column, effect in enumerate(totals.effects(OutputMeasure("metric", "it"), totals.test())):
        block_means = [changes[start : start + 4, column].mean() for start in (0, 4, 8)]
        np.testing.assert_allclose(effect.values, block_means)
        assert effect.mean == pytest.approx(changes[:, column].mean())
        assert [effect.low, effect.high] == pytest.approx(
            mean_intervals(changes)[:, column].tolist()
        )
        assert effect.most == (abs(changes).argmax(1) == column).sum()


def effects_from_changes(base: CorpusEffects, changes: np.ndarray) -> CorpusEffects:
    """The effects of heads (columns) that change a metric by these amounts on texts (rows)."""
    totals = corpus_effects.ChangeTotals([((0, head),) for head in range(changes.shape[1])])
    for row in changes:
        totals.add(row)
    test = totals.test()
    heads = totals.effects(OutputMeasure("metric", "it"), test)
    ranked = tuple(sorted(heads, key=lambda head: -abs(head.mean)))
    return replace(
        base,
        measured="metric",
        metric_name="it",
        texts=len(changes),
        documents=1,
        heads=ranked,
        least_effect=test.least_effect,
    )


@pytest.mark.parametrize("count", [1, 2, 5, 6, 20])
def test_a_head_is_named_only_if_its_change_differs_from_0_after_correction(
    count: int, minilm_effects: tuple[Path, CorpusEffects]
) -> None:
    changes = np.random.default_rng(4).normal([3.0, 0, 0, 0], 0.5, (count, 4))
    view = effects_from_changes(minilm_effects[1], changes).view()
    view_without_change = effects_from_changes(minilm_effects[1], changes - [3.0, 0, 0, 0]).view()
    if count < 6:
        texts = "1 text" if count == 1 else f"{count} texts"
        expected = f"{texts} cannot show that a head changes it on average; 6 or more are needed"
        assert view.title == view_without_change.title == expected
        return
    assert view.title == "1 of 4 heads is shown to change it on average: L0H0"
    assert view_without_change.title == "None of 4 heads is shown to change it on average"
    rule = (
        "A head is shown to change it if p is .05 or less: by 10,000 samples drawn from the "
        "texts, corrected for 4 heads."
    )
    assert view_without_change.closing[1] == view.closing[1] == rule
    assert "a mean change is shown only if it is" in view_without_change.closing[2]
    assert not any("is shown only if" in sentence for sentence in view.closing)
    (bars,) = view_without_change.picture.panels
    assert isinstance(bars, RankedBars)
    assert "texts are taken for independent · with" in bars.grid.note
    text = effects_from_changes(minilm_effects[1], changes).view().render(".txt").decode()
    assert re.search(r"L0H0 .+ [\d.-]+ to [\d.-]+ · p = \.0\d+\n", text)


def test_a_head_that_changes_nothing_is_not_tested(
    minilm_effects: tuple[Path, CorpusEffects],
) -> None:
    changes = np.array([[1.0, 0.0, 1e-9]] * 6)
    effects = effects_from_changes(minilm_effects[1], changes)
    assert [head.differs_from_zero for head in effects.heads] == [True, False, False]
    assert effects.view().closing[1].endswith("drawn from the texts, corrected for 1 head.")
    view = effects_from_changes(minilm_effects[1], changes * 0).view()
    assert view.title == "None of 3 heads is shown to change it on average"
    assert view.closing[1] == "Switching any one off changes nothing."


def test_texts_that_repeat_others_are_told(small_transformer: Saved) -> None:
    effects = head_effects([TEXT, GAP, *[TEXT] * 4], model=str(small_transformer("gpt2")))
    assert effects.repeated == 4
    sentence = "4 of 6 texts repeat an earlier one, but the intervals count them as independent."
    assert sentence in effects.view().closing


def test_each_change_is_printed_with_its_own_name_and_unit(small_transformer: Saved) -> None:
    folder = str(small_transformer("gpt2"))
    two_answers: Any = {"toward": "the", "instead_of": "it"}
    units = {
        r"the answers change by \d\.\d{3} bits": {},
        r"logit_difference changes by -?\d\.\d{3}": {"metric": logit_difference},
        r"the metric changes by -?\d\.\d{3}": {"metric": lambda outputs: outputs.logits[0, 0, 0]},
        r"logit of the minus logit of it changes by -?\d\.\d{3}": two_answers,
    }
    for change, options in units.items():
        (row,) = inspect(TEXT, model=folder, by="effect", **options).top(1)
        assert re.fullmatch(rf"<L\dH\d: {change} without it>", repr(row))
        mean = head_effects([TEXT], model=folder, **options).heads[0]
        assert repr(mean) == repr(row)[:-1] + ", on average>"
    vectors = repr(inspect("it is", by="effect", layer=5).top(1)[0])
    assert re.fullmatch(
        r"<L5H\d+: the last vectors change by \S+\xa0% of their length without it>", vectors
    )


@pytest.fixture(scope="module")
def minilm_effects(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CorpusEffects]:
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text(
        "\nthe animal was tired\nshe was late\r\nit is\nno\nyes it is\nso it was\n", "utf-8"
    )
    return path, head_effects(path.read_text("utf-8").splitlines(), layer=5)


@pytest.mark.slow("models")
def test_two_commands_rank_heads_over_a_file_of_texts(
    minilm_effects: tuple[Path, CorpusEffects], attnviz: Attnviz
) -> None:
    path, effects = minilm_effects
    for command in (("inspect", "--by", "effect", "--layer", "5"), ("heads", "-m", "minilm")):
        result = attnviz(*command, "--texts", str(path), "--json")
        assert result.status == 0, result.err
        document = json.loads(result.out)
        changes = {each["name"]: each["change"] for each in document["heads"]}
        assert (document["texts"], document["skipped"]) == (6, {"empty": 1, "unanswered": 0})
        for head in effects.heads:
            assert changes[head.name] == pytest.approx(head.mean, abs=1e-5)


def test_a_view_has_a_line_with_an_interval_for_every_head(
    minilm_effects: tuple[Path, CorpusEffects],
) -> None:
    _, effects = minilm_effects
    view, top_head = effects.view(), effects.heads[0]
    rows = list(csv.DictReader(io.StringIO(view.render(".csv").decode())))
    assert [row["name"] for row in rows] == [head.name for head in effects.heads]
    assert [float(rows[0][name]) for name in ("change", "low", "high")] == pytest.approx(
        [top_head.mean, top_head.low, top_head.high]
    )
    assert view.headline.startswith(f"With {top_head.name} zeroed, the last vectors change by ")
    assert "1 empty line was skipped." in view.closing


REFUSED_COMMANDS: dict[str, tuple[Sequence[str], str]] = {
    "of several tokens": (
        ("--by", "effect", "--toward", "dog", "--instead-of", "the"),
        "error: --toward is 'dog', which the model 'bert' writes as 3 tokens: 'd', 'o' and 'g'\n"
        " hint: choose a word that is one token of this model\n",
    ),
    "the same answer": (
        ("--by", "effect", "--toward", "the", "--instead-of", "The"),
        "error: --toward and --instead-of are the same token, 'the'\n hint: name two answers\n",
    ),
    "one answer": (
        ("--by", "effect", "--toward", "the"),
        "error: --toward names one answer, but --by effect compares two\n"
        " hint: name the other one, too: --instead-of TOKEN\n",
    ),
    "not by effect": (
        (),
        "error: --texts switches heads off on many texts, but --by is pattern\n"
        " hint: give --by effect\n",
    ),
    "a text as well": (
        ("the animal", "--by", "effect"),
        "error: a text and --texts are both given\n hint: give one of them\n",
    ),
    "one pair of one head": (
        ("--by", "effect", "--pairs", "1"),
        "error: --pairs is 1, and must be from 2 to 20\n hint: try --pairs 2\n",
    ),
    "what is shown of one text": (
        ("--by", "effect", "--predict"),
        "error: --predict is about one text, and --texts gives many\n"
        " hint: leave --predict out, or give one text\n",
    ),
}


@pytest.mark.parametrize("name", REFUSED_COMMANDS)
def test_what_cannot_be_measured_over_texts_is_refused_in_two_lines(
    name: str, attnviz: Attnviz, small_transformer: Saved, tmp_path: Path
) -> None:
    arguments, expected_error = REFUSED_COMMANDS[name]
    path = tmp_path / "texts.txt"
    path.write_text(f"{GAP}\n", encoding="utf-8")
    model = str(small_transformer("bert"))
    assert (
        attnviz("inspect", *arguments, "--texts", str(path), "--model", model).err == expected_error
    )


def test_files_without_texts_and_models_that_learned_a_task_are_refused(
    attnviz: Attnviz, tmp_path: Path
) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("\n \n", encoding="utf-8")
    result = attnviz("heads", "--model", "minilm", "--texts", str(path))
    assert (
        result.err == f"error: there is no text in '{path}'\n hint: write one text on each line\n"
    )
    result = attnviz("heads", "--model", "agreement", "--texts", str(path))
    assert result.err == (
        "error: --texts ranks the heads of a trained transformer, but 'agreement' is not one\n"
        " hint: leave --texts out: the heads of 'agreement' are ranked on sentences of its task\n"
    )
    for option in ("--pairs", "--layer", "--head"):
        result = attnviz("heads", "--model", "agreement", option, "0")
        assert result.err == (
            f"error: {option} is about switching heads off on texts, and none are given\n"
            " hint: give a file with a text on each line: --texts texts.txt\n"
        )


def test_heads_ranks_only_the_layer_or_the_head_that_is_asked_for(
    attnviz: Attnviz, small_transformer: Saved, tmp_path: Path
) -> None:
    path = tmp_path / "texts.txt"
    path.write_text(f"{GAP}\n", encoding="utf-8")
    command = ("heads", "--model", str(small_transformer("bert")), "--texts", str(path), "--json")

    layer = json.loads(attnviz(*command, "--layer", "1").out)
    head = json.loads(attnviz(*command, "--head", "L0H2").out)

    assert {row["name"][:2] for row in layer["heads"]} == {"L1"}
    assert len(layer["heads"]) == 4
    assert [row["name"] for row in head["heads"]] == ["L0H2"]
    assert "--layer 1" in layer["attnviz"]["command"]


HINT = "return one number, such as float(outputs.logits[0, -1, 5])"
REFUSED_METRICS: dict[str, tuple[Any, str, str]] = {
    "no function": (
        5,
        "metric is of type int, and should be a function",
        "try metric=lambda outputs: outputs.logits[0, -1, 5]",
    ),
    "no number": (
        lambda outputs: [outputs],
        'metric failed: "TypeError: float() argument must be a string or a real number, '
        "not 'list'\"",
        HINT,
    ),
    "not there": (
        lambda outputs: outputs.logit,
        'metric failed: "AttributeError: '
        "'BaseModelOutputWithPoolingAndCrossAttentions' object has no attribute 'logit'\"",
        HINT,
    ),
    "not finite": (lambda outputs: float("nan"), "metric returned nan", HINT),
}


@pytest.mark.parametrize("name", REFUSED_METRICS)
def test_a_metric_that_gives_no_number_is_refused_in_two_lines(name: str) -> None:
    metric, problem, hint = REFUSED_METRICS[name]
    with pytest.raises(AttnvizError) as refusal:
        inspect("it is", layer=5, by="effect", metric=metric)  # not only when it is shown
    assert (str(refusal.value), refusal.value.hint) == (problem, hint)
    with pytest.raises(AttnvizError) as refusal:
        head_effects(["", "it is"], layer=5, metric=metric)
    assert str(refusal.value).removeprefix("text 2: ") == problem


def test_what_is_not_there_is_refused_when_it_is_asked_for(small_transformer: Saved) -> None:
    folder = str(small_transformer("gpt2"))
    options_by_problem: dict[str, dict[str, Any]] = {
        "no token of the sentence is 'dog'": {"source": "it", "to": "dog"},
        "no token of the sentence is 'cat'": {"query": "cat"},
        "'toward' and 'instead_of' are the same token, 'it'": {
            "by": "effect",
            "toward": "it",
            "instead_of": "it",
        },
    }
    for problem, options in options_by_problem.items():
        with pytest.raises(AttnvizError, match=problem):
            inspect(TEXT, model=folder, **options)
    with pytest.raises(AttnvizError, match="of a trained transformer"):
        inspect(trace("I am", variant="multi-head"), by="effect")


def test_a_corpus_is_a_list_with_texts_that_the_model_can_read() -> None:
    with pytest.raises(AttnvizError, match="texts is a single text, and should be several"):
        head_effects("it is")
    with pytest.raises(AttnvizError, match="there is no text in the corpus"):
        head_effects(["", " "])
    with pytest.raises(AttnvizError, match="text 3: the text has 1,002 tokens, but the model"):
        head_effects(["it is", "", "it " * 1000])
    with pytest.raises(AttnvizError, match="'metric' says what heads are ranked by, but by is"):
        inspect("it is", metric=lambda outputs: 0.0)
    with pytest.raises(AttnvizError, match="'ablation' is about switching heads off, but none"):
        InspectOptions(ablation="mean")
    assert library.head_effects is head_effects


def test_the_file_of_a_corpus_is_closed_also_after_an_error(
    attnviz: Attnviz,
    small_transformer: Saved,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, opened = tmp_path / "texts.txt", list[Generator[str, None, None]]()
    path.write_text("it is\n" + "it " * 1000 + "\nit was\n", "utf-8")
    read_lines = files.read_lines

    def note_lines(path: Path) -> Generator[str, None, None]:
        opened.append(read_lines(path))
        return opened[-1]

    monkeypatch.setattr(files, "read_lines", note_lines)

    result = attnviz("heads", "--texts", str(path), "--model", str(small_transformer("gpt2")))

    assert result.status == 2
    assert [inspect_module.getgeneratorstate(lines) for lines in opened] == ["GEN_CLOSED"]


OWN_ANSWERS = [
    ("The animal was", "the", "it"),
    ("it was too", "the", "was"),
    ("the street did cross the", "was", "it"),
    ("was it", "it", "the"),
    ("it did", "was", "the"),
    ("the animal", "it", "was"),
]


def test_texts_may_name_their_own_answers(small_transformer: Saved, tmp_path: Path) -> None:
    folder, path = str(small_transformer("gpt2")), tmp_path / "answers.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in OWN_ANSWERS), "utf-8")
    effects = head_effects(OWN_ANSWERS, model=folder, pairs=2)
    for place, (text, toward, instead_of) in enumerate(OWN_ANSWERS):
        single = inspect(text, model=folder, by="effect", toward=toward, instead_of=instead_of)
        expected = {head.name: head.mean for head in single.effects.heads}
        for head in effects.heads:
            assert head.values[place] == pytest.approx(expected[head.name], abs=1e-5)
    metrics = [
        inspect(text, model=folder, by="effect", toward=one, instead_of=other).effects.metric
        for text, one, other in OWN_ANSWERS
    ]
    assert effects.metric == pytest.approx(np.mean(metrics), abs=1e-5)
    assert effects.metric_name == "logit of each text's first answer minus logit of its second"
    of_file = head_effects(path, model=folder)
    assert [head.mean for head in of_file.heads] == [head.mean for head in effects.heads]
    assert (
        "to change the logit of each text's first answer minus the logit of its second on average"
        in effects.view().title
    )


ODD_ANSWERS: dict[str, tuple[list[str], dict[str, Any], str, str]] = {
    "mixed": (
        ["The animal\twas\tit", "it was too"],
        {},
        "text 2 has no answers of its own, but text 1 has two",
        "give every text two answers, with tabs between: text, answer, other answer",
    ),
    "mixed, later": (
        ["it was too", "", "The animal\twas\tit"],
        {},
        "text 3 has two answers of its own, but text 1 has none",
        "give every text two answers, with tabs between: text, answer, other answer",
    ),
    "two answers for all": (
        ["The animal\twas\tit"],
        {"toward": "the", "instead_of": "it"},
        "the texts name their own answers, and 'toward' is given as well",
        "leave 'toward' out, or give texts without columns",
    ),
    "a metric": (
        ["The animal\twas\tit"],
        {"metric": logit_difference},
        "the texts name their own answers, and 'metric' is given as well",
        "leave 'metric' out, or give texts without columns",
    ),
    "several tokens": (
        ["The animal\twas\tit", "it\twas\tdog"],
        {},
        "text 2: its second answer is 'dog', which the model 'gpt2' writes as 3 tokens: 'd', 'o' "
        "and 'g'",
        "choose a word that is one token of this model",
    ),
    "one token": (
        ["The animal\twas\twas"],
        {},
        "text 1: its two answers are the same token, 'was'",
        "name two answers",
    ),
}


@pytest.mark.parametrize("name", ODD_ANSWERS)
def test_odd_answers_of_texts_are_refused_in_two_lines(name: str, small_transformer: Saved) -> None:
    texts, options, problem, hint = ODD_ANSWERS[name]
    with pytest.raises(AttnvizError) as refusal:
        head_effects(texts, model=str(small_transformer("gpt2")), **options)
    assert (str(refusal.value), refusal.value.hint) == (problem, hint)


def test_a_command_refuses_answers_beside_those_of_its_texts_before_a_model_is_loaded(
    attnviz: Attnviz, tmp_path: Path
) -> None:
    path = tmp_path / "answers.tsv"
    path.write_text("\nMary and John left. John saw\tMary\tJohn\n", "utf-8")
    result = attnviz(
        *("heads", "--model", "nothing/there", "--texts", str(path)),
        *("--toward", "Mary", "--instead-of", "John"),
    )
    assert result.err == (
        "error: the texts name their own answers, and --toward is given as well\n"
        " hint: leave --toward out, or give texts without columns\n"
    )


def test_empty_texts_separate_documents_of_which_each_counts_once(
    small_transformer: Saved,
) -> None:
    folder = str(small_transformer("gpt2"))
    documents = [[text] for text in TEXTS[:6]] + [[TEXTS[0], TEXTS[1]]]
    texts = [line for document in documents for line in (*document, "")]
    effects = head_effects(texts, model=folder, metric=logit_difference)
    assert (effects.texts, effects.documents) == (8, 7)
    for head in effects.heads:
        means = [*head.values[:6], head.values[6:].mean()]
        assert head.mean == pytest.approx(np.mean(means), abs=1e-6)
        expected_ends = mean_intervals(np.array(means)[:, None])[:, 0]
        assert [head.low, head.high] == pytest.approx(expected_ends.tolist(), abs=1e-6)
    closing = effects.view().closing
    assert (
        "Blank lines separate 7 documents, each of which counts as one observation; if these are "
        "paragraphs of one text, intervals may be too narrow."
    ) in closing
    assert any("samples drawn from the documents" in sentence for sentence in closing)
