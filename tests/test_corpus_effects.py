"""What heads change by a metric, in pairs and over many texts: against plain transformers."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attnviz as library
from attnviz import AttnvizError, head_effects, inspect, trace
from attnviz.analysis.inspection.corpus_effects import CorpusEffects
from attnviz.analysis.inspection.inspect_options import InspectOptions
from attnviz.analysis.sign_flips import bootstrap_intervals
from attnviz.traces.settings import HeadId
from attnviz.traces.trained.loading import load_transformer
from tests.conftest import Attnviz
from tests.small_transformers import TEXT, Saved

TEXTS = (
    *("The animal was tired", "", "  ", "it was too", "the street did cross the animal"),
    *("the animal was too", "it did cross the street"),
)
GAP = "The animal [MASK] the street because it was too tired"
WIDTH = 4  # of a head of the small models


@contextmanager
def contexts_replaced(model: Any, with_: dict[HeadId, torch.Tensor | float]) -> Iterator[None]:
    """The model's own forward pass, with parts of what goes into output projections replaced."""

    def replacing(layer: int) -> Any:
        def hook(module: Any, args: Any) -> Any:
            joined = args[0].clone()
            for (of_layer, head), value in with_.items():
                if of_layer == layer:
                    joined[..., head * WIDTH : (head + 1) * WIDTH] = value
            return (joined,)

        return hook

    hooks = [block.attn.c_proj.register_forward_pre_hook(replacing(layer))
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


def plain_difference(folder: str, text: str, off: dict[HeadId, Any]) -> float:
    made = trace(text, model=folder)
    model = load_transformer(made.origin.settings).model
    with torch.no_grad(), contexts_replaced(model, off):
        return float(logit_difference(model(input_ids=torch.tensor([made.tokens.ids]))))


def test_a_metric_of_ones_own_ranks_heads(small_transformer: Saved) -> None:
    folder = str(small_transformer("gpt2"))
    found = inspect(TEXT, model=folder, by="effect", metric=logit_difference, pairs=3).effects
    full = plain_difference(folder, TEXT, {})
    assert (found.measured, found.metric_name) == ("metric", "logit_difference")
    assert found.metric == pytest.approx(full, abs=1e-4)
    for each in (*found.heads, *(pair.together for pair in found.pairs)):
        off = dict.fromkeys(each.head_ids, 0.0)
        assert each.mean == pytest.approx(plain_difference(folder, TEXT, off) - full, abs=1e-4)
    sizes = [abs(each.mean) for each in found.heads]
    assert sizes == sorted(sizes, reverse=True)


def test_pairs_are_of_the_strongest_heads_and_the_furthest_from_its_sum_comes_first(
    small_transformer: Saved,
) -> None:
    found = inspect(TEXT, model=str(small_transformer("gpt2")), by="effect", pairs=3).effects
    strongest = {each.name: each.mean for each in found.heads[:3]}
    assert len(found.pairs) == 3
    for pair in found.pairs:
        first, second = pair.together.name.split(" + ")
        assert pair.alone == (strongest[first], strongest[second])
        assert pair.beyond_sum == pytest.approx(pair.together.mean - sum(pair.alone))
    beyond = [abs(pair.beyond_sum) for pair in found.pairs]
    assert beyond == sorted(beyond, reverse=True)


def test_two_answers_are_compared_by_their_logits(
    small_transformer: Saved, attnviz: Attnviz
) -> None:
    folder = str(small_transformer("bert"))
    words = ("the", "was")
    found = inspect(GAP, model=folder, by="effect", toward=words[0], instead_of=words[1]).effects
    made = trace(GAP, model=folder)
    loaded, place = load_transformer(made.origin.settings), made.tokens.labels.index("[MASK]")
    ids = loaded.tokenizer.convert_tokens_to_ids([*words])
    with torch.no_grad():
        logits = loaded.model(input_ids=torch.tensor([made.tokens.ids])).logits[0, place]
    assert found.metric == pytest.approx(float(logits[ids[0]] - logits[ids[1]]), abs=1e-4)
    result = attnviz(
        "inspect", GAP, "--model", folder, "--by", "effect", "--toward", "the",
        "--instead-of", "was", "--pairs", "2",
    )  # fmt: skip
    told = " ".join(result.out.split())
    top = found.heads[0]
    ends = f"{found.metric:.2f} to {found.metric + top.mean:.2f}"
    name = "the logit of “the” − the logit of “was”"
    assert f"{top.name} switched off, {name} changes from {ends}, the most of 8 heads" in told
    (pair,) = inspect(
        GAP, model=folder, by="effect", toward="the", instead_of="was", pairs=2
    ).effects.pairs
    digits = 2 if abs(pair.beyond_sum) >= 0.05 else 4
    where = "above" if pair.beyond_sum > 0 else "below"
    assert (
        f"Without {pair.together.name} the change is {pair.together.mean:.{digits}f}, "
        f"{abs(pair.beyond_sum):.{digits}f} {where} the sum of the changes without each" in told
    )
    row = next(line for line in result.out.splitlines() if line.startswith(pair.together.name))
    assert f" {pair.beyond_sum:.{digits}f} " in row  # the sentence and the bar: one number


def test_a_mean_over_texts_is_the_mean_of_each_text(small_transformer: Saved) -> None:
    folder = str(small_transformer("gpt2"))
    found = head_effects(TEXTS, model=folder, metric=logit_difference, pairs=2)
    texts = [text for text in TEXTS if text.strip()]
    assert (found.texts, found.empty) == (5, 2)
    alone = [inspect(text, model=folder, by="effect", metric=logit_difference) for text in texts]
    for head in found.heads:
        values = [
            each.mean for one in alone for each in one.effects.heads if each.name == head.name
        ]
        np.testing.assert_allclose(head.values, values, atol=1e-5)
        assert head.low <= head.mean <= head.high
    (pair,) = found.pairs
    by_name = {head.name: head for head in found.heads}
    first, second = (by_name[name] for name in pair.together.name.split(" + "))
    np.testing.assert_allclose(
        pair.beyond_sum.values, pair.together.values - first.values - second.values
    )


def test_a_head_that_is_off_writes_its_mean_over_all_texts(small_transformer: Saved) -> None:
    folder, head = str(small_transformer("gpt2")), (1, 2)
    texts = [text for text in TEXTS if text.strip()]
    contexts = [trace(text, model=folder).layers[1].attended.contexts[2] for text in texts]
    mean = torch.cat(contexts).mean(0)
    found = head_effects(texts, model=folder, metric=logit_difference, ablation="mean")
    (effect,) = [each for each in found.heads if each.head_ids == (head,)]
    wanted = [
        plain_difference(folder, text, {head: mean}) - plain_difference(folder, text, {})
        for text in texts
    ]
    np.testing.assert_allclose(effect.values, wanted, atol=1e-4)
    off = head_effects(texts, model=folder, metric=logit_difference, without="L1H2=mean")
    full = np.mean([plain_difference(folder, text, {head: mean}) for text in texts])
    assert off.metric == pytest.approx(full, abs=1e-4)
    assert len(off.heads) == 7


def test_texts_in_which_nothing_is_to_be_answered_are_counted(small_transformer: Saved) -> None:
    found = head_effects([GAP, TEXT], model=str(small_transformer("bert")))
    assert (found.measured, found.texts, found.unanswered) == ("answers", 1, 1)
    told = " ".join(found.view().closing)
    assert "1 text in which there is nothing to answer was skipped." in told
    assert head_effects([TEXT], model=str(small_transformer("bert"))).measured == "vectors"


def test_ctrl_c_leaves_the_texts_before_it(small_transformer: Saved) -> None:
    def stopping(texts: Sequence[Any]) -> Iterator[Any]:
        yield from texts[:2]
        raise KeyboardInterrupt

    folder, texts = str(small_transformer("gpt2")), [TEXT, GAP, TEXT, TEXT]
    found = head_effects(texts, model=folder, pairs=2, track=stopping)
    whole = head_effects(texts[:2], model=folder)
    assert (found.texts, found.unread, found.pairs) == (2, 2, ())
    assert [head.mean for head in found.heads] == [head.mean for head in whole.heads]
    assert "Stopped before the last 2 texts." in found.view().closing
    with pytest.raises(KeyboardInterrupt):
        head_effects(texts, model=folder, track=lambda texts: stopping(texts[:0]))


def test_intervals_hold_what_resampled_means_hold() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(2, 3, (400, 1))
    (low,), (high,) = bootstrap_intervals(values, 42)
    wide = 1.96 * values.std() / 20
    assert low == pytest.approx(values.mean() - wide, abs=0.06)
    assert high == pytest.approx(values.mean() + wide, abs=0.06)
    assert bootstrap_intervals(np.full((5, 2), 0.5), 42).tolist() == [[0.5, 0.5]] * 2
    assert np.isnan(bootstrap_intervals(values[:4], 42)).all()


@pytest.fixture(scope="module")
def of_minilm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CorpusEffects]:
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    path.write_text(
        "the animal was tired\n\nshe was late\r\nit is\nno\nyes it is\n", encoding="utf-8"
    )
    return path, head_effects(path.read_text("utf-8").splitlines(), layer=5)


def test_two_commands_rank_heads_over_a_file_of_texts(
    of_minilm: tuple[Path, CorpusEffects], attnviz: Attnviz
) -> None:
    path, found = of_minilm
    for words in (("inspect", "--by", "effect", "--layer", "5"), ("heads", "-m", "minilm")):
        result = attnviz(*words, "--texts", str(path), "--json")
        assert result.status == 0, result.err
        document = json.loads(result.out)
        changes = {each["head"]: each["change"] for each in document["heads"]}
        assert (document["texts"], document["skipped"]) == (5, {"empty": 1, "unanswered": 0})
        for head in found.heads:
            assert changes[head.name] == pytest.approx(head.mean, abs=1e-5)


def test_a_view_has_a_line_with_an_interval_for_every_head(
    of_minilm: tuple[Path, CorpusEffects],
) -> None:
    _, found = of_minilm
    view, top = found.view(), found.heads[0]
    rows = list(csv.DictReader(io.StringIO(view.render(".csv").decode())))
    assert [row["head"] for row in rows] == [head.name for head in found.heads]
    assert [float(rows[0][name]) for name in ("change", "low", "high")] == pytest.approx(
        [top.mean, top.low, top.high]
    )
    assert view.headline.startswith(f"With {top.name} switched off, the last vectors change by ")
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
    words, told = REFUSED_COMMANDS[name]
    path = tmp_path / "texts.txt"
    path.write_text(f"{GAP}\n", encoding="utf-8")
    model = str(small_transformer("bert"))
    assert attnviz("inspect", *words, "--texts", str(path), "--model", model).err == told


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
    result = attnviz("heads", "--model", "agreement", "--pairs", "2")
    assert result.err == (
        "error: --pairs is about switching heads off on texts, and none are given\n"
        " hint: give a file with a text on each line: --texts texts.txt\n"
    )


HINT = "return one number, such as float(outputs.logits[0, -1, 5])"
REFUSED_METRICS: dict[str, tuple[Any, str, str]] = {
    "no function": (
        5,
        "metric is of type int, and should be a function",
        "try metric=lambda outputs: outputs.logits[0, -1, 5]",
    ),
    "no number": (
        lambda outputs: [outputs],
        "metric failed: TypeError: float() argument must be a string or a real number, not 'list'",
        HINT,
    ),
    "not there": (
        lambda outputs: outputs.logit,
        "metric failed: AttributeError: "
        "'BaseModelOutputWithPoolingAndCrossAttentions' object has no attribute 'logit'",
        HINT,
    ),
    "not finite": (lambda outputs: float("nan"), "metric returned nan", HINT),
}


@pytest.mark.parametrize("name", REFUSED_METRICS)
def test_a_metric_that_gives_no_number_is_refused_in_two_lines(name: str) -> None:
    metric, problem, hint = REFUSED_METRICS[name]
    with pytest.raises(AttnvizError) as caught:
        inspect("it is", layer=5, by="effect", metric=metric).view()
    assert (str(caught.value), caught.value.hint) == (problem, hint)


def test_a_corpus_is_a_list_with_texts_that_the_model_can_read() -> None:
    with pytest.raises(AttnvizError, match="texts is 'it is', and should be a list"):
        head_effects("it is")
    with pytest.raises(AttnvizError, match="there is no text in the corpus"):
        head_effects(["", " "])
    with pytest.raises(AttnvizError, match="text 3: the text has 1,002 tokens, but the model"):
        head_effects(["it is", "", "it " * 1000])
    with pytest.raises(AttnvizError, match="metric says what heads are ranked by, but by is"):
        inspect("it is", metric=lambda outputs: 0.0)
    with pytest.raises(AttnvizError, match="--ablation is about switching heads off, but none"):
        InspectOptions(ablation="mean")
    assert library.head_effects is head_effects
