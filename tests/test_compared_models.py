"""Two models on one sentence, and two finished Traces: heads ranked by how far they differ."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from attnviz import AttnvizError, compare, compare_models, compare_sentences, from_weights, trace
from attnviz.analysis.inspection.two_sentences import trace_names
from attnviz.traces.models.folder import model_files
from attnviz.traces.models.shipped import load_model
from attnviz.traces.trained.refusals import quiet_transformers
from tests.conftest import Attnviz
from tests.refusals import assert_refused, refusal_of
from tests.small_transformers import KINDS, save

KEYS = "the old keys near the small cabinet"
OTHER_NAME = "fine-tuned"


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a copy of `agreement` with other queries in its second layer."""
    model = load_model("agreement")
    model.parameters["layers.1.w_query"].add_(
        torch.randn(32, 32, generator=torch.Generator().manual_seed(0))
    )
    folder = tmp_path_factory.mktemp("models") / OTHER_NAME
    folder.mkdir()
    for name, content in model_files(model).items():
        (folder / name).write_bytes(content)
    return str(folder)


def jensen_shannon(rows: np.ndarray, others: np.ndarray) -> float:
    """The mean over rows of ½ KL(a‖m) + ½ KL(b‖m), in bits."""
    mean = (rows + others) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = [np.nan_to_num(side * np.log2(side / mean)) for side in (rows, others)]
    return float((sum(terms) / 2).sum(-1).mean())


def test_heads_are_ranked_by_the_mean_divergence_of_their_rows(other: str) -> None:
    comparison = compare_models(KEYS, "agreement", other)
    weights = [trace(KEYS, model=model).weights.double().numpy() for model in ("agreement", other)]
    divergences = {
        f"L{layer}H{head}": jensen_shannon(*(each[layer, head] for each in weights))
        for layer in range(2)
        for head in range(2)
    }

    assert [head.name for head in comparison.heads] == sorted(
        divergences, key=lambda name: -divergences[name]
    )
    for head in comparison.heads:
        assert_allclose(head.divergence, divergences[head.name], atol=1e-6)
        change = abs(weights[1] - weights[0])[int(head.name[1]), int(head.name[3])]
        link = comparison.link(head)
        assert_allclose(change[link.query, link.key], change.max())
    assert {head.name for head in comparison.heads if not head.divergence} == {"L0H0", "L0H1"}


def test_a_head_whose_rows_all_change_comes_before_one_with_a_single_larger_change() -> None:
    before = torch.full((2, 4, 4), 0.25)
    after = before.clone()
    after[0, 0] = torch.tensor([1.0, 0.0, 0.0, 0.0])  # one row, by .75
    after[1] = torch.tensor([0.5, 0.5, 0.0, 0.0])  # every row, by .25
    words = ["a", "b", "c", "d"]
    comparison = compare(
        from_weights(before, words, name="x"), from_weights(after, words, name="y")
    )

    assert [head.name for head in comparison.heads] == ["L0H1", "L0H0"]
    assert [comparison.link(head).size for head in comparison.heads] == [0.25, 0.75]


def test_both_names_are_kept_wherever_the_comparison_is_shown(
    other: str, tmp_path: Path, attnviz: Attnviz
) -> None:
    files = [str(tmp_path / f"both.{suffix}") for suffix in ("csv", "json", "html", "svg", "md")]
    out = [word for file in files for word in ("-o", file)]
    assert attnviz("compare", KEYS, "--model=agreement", "--model", other, *out).status == 0
    result = attnviz("compare", KEYS, "--model=agreement", "--model", other)

    line = re.compile(r"In L1H\d, .* of its attention in agreement, .*\d % in fine-tuned\n")
    assert line.match(" ".join(result.out.replace("\xa0", " ").partition("\n8 ")[0].split()) + "\n")
    header, *rows = csv.reader(Path(files[0]).read_text().splitlines())
    assert header == [
        "layer",
        "head",
        "name",
        "query",
        "key",
        "apart",
        "agreement",
        OTHER_NAME,
        "others",
    ]
    assert len(rows) == 4
    document = json.loads(Path(files[1]).read_text())
    assert document["names"] == ["agreement", OTHER_NAME]
    assert document["attnviz"]["settings"]["model"] == ["agreement", OTHER_NAME]
    assert document["attnviz"]["command"].startswith(
        f"attnviz compare '{KEYS}' --model agreement --model ./{OTHER_NAME} --out "
    )
    for file in files[2:]:
        text = Path(file).read_text()
        assert "agreement" in text
        assert OTHER_NAME in text


def test_three_maps_stand_beside_each_other_with_their_names(other: str) -> None:
    view = compare_models(KEYS, "agreement", other).view()
    (maps,) = view.picture.groups
    top = view.headline[3:7]

    assert view.title == f"one sentence, read by agreement and {OTHER_NAME}"
    assert [panel.title for panel in maps.panels] == [  # type: ignore[union-attr]
        f"{top} · agreement",
        f"{top} · {OTHER_NAME}",
        f"{top} · {OTHER_NAME} − agreement",
    ]
    hidden = [panel.cells.window(slice(None), slice(None)).hidden for panel in maps.panels]  # type: ignore[union-attr]
    assert np.array_equal(hidden[2], np.triu(np.ones((8, 8), bool), 1))


def test_a_long_name_is_short_above_maps_and_columns_and_whole_elsewhere() -> None:
    names = (f"{'run-' * 10}100", f"{'run-' * 10}200")
    before, after = trace("I am", seed=1), trace("I am", seed=2)
    view = compare(before, after, names=names).view()
    table, *maps = view.grids()

    assert table.columns.labels == ("run-run-run-r…-100", "run-run-run-r…-200", "others", "apart")
    assert maps[1].title == "L0H0 · run-run-run-r…-200"
    assert view.title == f"one sentence, in {names[0]} and {names[1]}"
    assert (
        view.render(".csv").decode().splitlines()[0]
        == f"layer,head,name,query,key,apart,{','.join(names)},others"
    )
    similar_names = compare(before, after, names=("a" * 30, "a" * 31)).view().grids()[0]
    assert similar_names.columns.labels[:2] == ("first", "second")


def test_a_model_compared_with_itself_differs_in_no_head(attnviz: Attnviz) -> None:
    result = attnviz("compare", KEYS, "--model=agreement", "--model=agreement")

    assert result.status == 0
    assert result.out.startswith("No head differs: all 4 heads have the same weights in both\n")
    assert " · in both\n" in result.out


def test_two_traces_are_compared_as_they_are(other: str) -> None:
    before, after = trace(KEYS, model="agreement"), trace(KEYS, model=other)

    comparison = compare(before, after, query="keys")
    assert (comparison.names, comparison.first, comparison.second) == (
        ("agreement", OTHER_NAME),
        before,
        after,
    )
    assert comparison.query == 2
    assert 'differs most of 4 heads for "keys": its row is' in comparison.view().closing[1]
    named_comparison = compare(before, after, names=("step 0", "step 200"), layer=1, head=0)
    assert named_comparison.view().title == "one sentence, read by step 0 and step 200"
    assert [head.name for head in named_comparison.heads] == ["L1H0"]
    assert re.search(r"attention in step 0, .* in step 200\.$", named_comparison.view().closing[0])
    assert named_comparison.view().closing[1].startswith("Its rows are ")


def test_two_traces_of_two_sentences_are_compared_by_the_words_that_they_share() -> None:
    comparison = compare(trace("it was tired", seed=1), trace("it was wide", seed=1))

    assert comparison.view().title == "two sentences, head by head"
    assert comparison.view().closing[0].endswith('with "wide".')


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        ({"seed": 1}, {"seed": 2}, ("seed 1", "seed 2")),
        ({"variant": "causal"}, {"variant": "plain"}, ("causal", "plain")),
        ({"dim": 4}, {"dim": 8, "seed": 7}, ("first run", "second run")),
        ({}, {"causal": True}, ("first run", "second run")),
        ({"model": "agreement"}, {"model": "agreement"}, ("first run", "second run")),
    ],
)
def test_runs_are_called_by_what_differs(
    first: dict[str, Any], second: dict[str, Any], names: tuple[str, str]
) -> None:
    assert trace_names(trace("the keys", **first), trace("the keys", **second)) == names


def test_two_saved_traces_are_called_by_their_models_or_else_by_their_files(
    tmp_path: Path, attnviz: Attnviz
) -> None:
    eyes = torch.eye(3), torch.eye(3).flip(0)
    for number, weights in zip((0, 200), eyes, strict=True):
        from_weights(weights, ["a", "b", "c"]).save(tmp_path / f"step-{number}.npz")
    files = [f"--trace={tmp_path / f'step-{number}.npz'}" for number in (0, 200)]

    result = attnviz("compare", *files)
    assert result.status == 0, result.err
    assert result.out.startswith(
        'In L0H0, "a" gives itself 100\xa0% of its attention in step-0, 0\xa0% in step-200\n'
    )


def test_a_trace_is_compared_with_a_sentence_that_its_own_model_reads(tmp_path: Path) -> None:
    model = save(KINDS["gpt2"], tmp_path / "mine")
    for model_name, text, second in (
        ("agreement", "the keys near the cabinet", "the keys near the cabinets"),
        (model, "it was too tired", "it was open too"),
    ):
        comparison = compare_sentences(trace(text, model=model_name), second)
        assert comparison.second.origin.settings.model == str(model_name)


REFUSED = [
    (
        "three models",
        ["--model=agreement", "--model=toy", "--model=minilm"],
        "--model is given 3 times, but only two models can be compared",
        "give two: --model agreement --model toy",
    ),
    (
        "a second sentence",
        ["the key", "--model=agreement", "--model=toy"],
        "two models are compared, and a second sentence is given: only one thing can differ",
        "give one --model, or leave the second sentence out",
    ),
    (
        "an aspect",
        ["--by=mask", "--model=agreement", "--model=toy"],
        "two models are compared, and --by is given: only one thing can differ",
        "give one --model, or leave --by out",
    ),
    (
        "a trace",
        ["--trace=a.npz", "--model=agreement", "--model=toy"],
        "two models are compared on a text, and --trace is a finished trace",
        "leave --trace out, or one --model",
    ),
    (
        "other heads",
        ["--model=agreement", "--model=minilm"],
        "the two do not have the same heads: 4 in agreement, up to L1H1, and 72 in minilm, up to "
        "L5H11",
        "give two with the same layers and heads, or choose one: --layer 0 --head 0",
    ),
    (
        "a missing layer",
        ["--model=agreement", "--model=minilm", "--layer=3", "--head=0"],
        "agreement: there is no layer 3: the model has 2 layers, 0 to 1",
        "try --layer 1",
    ),
    (
        "an unknown model",
        ["--by=model", "--model=agreement"],
        "--by model needs no values: two models are compared by naming both",
        "give --model agreement --model FOLDER; in Python compare_models(text, a, b)",
    ),
    (
        "no such trace",
        ["--trace=a.npz", "--trace=b.npz"],
        "a text and --trace are both given",
        "give one of them",
    ),
]


@pytest.mark.parametrize(
    ("arguments", "problem", "hint"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_cannot_be_compared_is_refused_in_two_lines(
    attnviz: Attnviz, arguments: list[str], problem: str, hint: str
) -> None:
    assert_refused(attnviz("compare", KEYS, *arguments), problem, hint)


def test_words_that_one_model_does_not_know_are_refused_with_its_name(attnviz: Attnviz) -> None:
    arguments = "compare", "the animal", "--model=agreement", "--model=toy"
    problem = "agreement: the model has never seen 'animal'"

    assert attnviz(*arguments).err.startswith(f"error: {problem}\n")
    with pytest.raises(AttnvizError) as error:
        compare_models("the animal", "agreement", "toy")
    assert str(error.value) == problem


SENTENCE = "The animal didn't cross the street."


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Models with equally many heads: one adds [CLS] and [SEP], one nothing, one <s>."""
    folder = tmp_path_factory.mktemp("tokenizers")
    return {kind: save(KINDS[kind], folder / kind) for kind in ("bert", "gpt2", "llama")}


WORDS = ["The", "animal", "didn't", "cross", "the", "street", "."]


def word_weights(folder: Path) -> np.ndarray:
    """The model's own weights [head, word, word]: the words' characters, by the tokenizer's spans,
    with the space before them, summed over keys and averaged over queries."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with quiet_transformers():
        model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager")
    encoding = tokenizer(SENTENCE, return_offsets_mapping=True, return_tensors="pt")
    spans = encoding.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        weights = torch.cat(model(**encoding, output_attentions=True).attentions).double().numpy()
    starts = [SENTENCE.index(word) for word in WORDS]
    membership = np.zeros((len(WORDS), len(spans)))
    for token, (start, end) in enumerate(spans):
        for number, (word, first) in enumerate(zip(WORDS, starts, strict=True)):
            has_space = first > 0 and SENTENCE[first - 1] == " "
            shared_letters = range(max(start, first - has_space), min(end, first + len(word)))
            membership[number, token] = len(shared_letters) > 0
    means = membership / membership.sum(1, keepdims=True)
    weights_by_word: np.ndarray = means @ weights.reshape(-1, len(spans), len(spans)) @ membership.T
    return weights_by_word


@pytest.mark.parametrize(("first", "second"), [("bert", "gpt2"), ("llama", "bert")])
def test_models_with_other_tokenizers_are_compared_by_word(
    tokenizers: dict[str, Path], first: str, second: str
) -> None:
    comparison = compare_models(SENTENCE, tokenizers[first], tokenizers[second])

    rows = comparison.rows
    labels = [rows.labels(pair) for pair in rows.shared]
    assert labels == [(word, word) for word in WORDS]
    for side, folder in ((0, tokenizers[first]), (1, tokenizers[second])):
        expected = dict(zip(sorted(head.name for head in comparison.heads), word_weights(folder),
                            strict=True))  # fmt: skip
        places = [(rows.first, rows.second)[side][pair] for pair in rows.shared]
        for head in comparison.heads:
            cells = (head.first, head.second)[side].cells.window(slice(None), slice(None)).values
            assert_allclose(cells[np.ix_(places, places)], expected[head.name], atol=1e-5)


def test_it_is_said_that_words_are_compared_and_which_special_tokens_one_model_has(
    tokenizers: dict[str, Path], attnviz: Attnviz
) -> None:
    models = [f"--model={tokenizers[name]}" for name in ("llama", "bert")]
    result = attnviz("compare", SENTENCE, *models)
    output = " ".join(result.out.split())

    assert result.status == 0, result.err
    assert "8 words are in both (of 8 and 9; 31 and 12 tokens) · " in output
    assert (
        "<s> and [CLS] are compared because they are at the same position. The sentence is cut "
        "into different tokens (31 in llama, 12 in bert), and weights are compared by word: summed "
        "over the tokens of a word that is read, averaged over those of a word that reads. [SEP] "
        "is only in bert."
    ) in output


def test_models_in_memory_have_a_tokenizer_each(tokenizers: dict[str, Path]) -> None:
    import transformers

    first, second = folders = tokenizers["bert"], tokenizers["gpt2"]
    with quiet_transformers():
        models = [transformers.AutoModel.from_pretrained(folder) for folder in folders]
    tokenizer_pair = [transformers.AutoTokenizer.from_pretrained(folder) for folder in folders]
    comparison_of_folders = compare_models(SENTENCE, first, second)

    for comparison in (
        compare_models(SENTENCE, models[0], models[1], tokenizer=tokenizer_pair),
        compare_models(SENTENCE, (models[0], tokenizer_pair[0]), (models[1], tokenizer_pair[1])),
        compare_models(SENTENCE, first, (models[1], tokenizer_pair[1])),
    ):
        assert [head.name for head in comparison.heads] == [
            head.name for head in comparison_of_folders.heads
        ]
        assert_allclose(
            comparison.heads[0].divergence, comparison_of_folders.heads[0].divergence, atol=1e-5
        )
    with pytest.raises(AttnvizError) as error:
        compare_models(SENTENCE, models[0], models[1], tokenizer=tokenizer_pair[:1])
    assert str(error.value) == "tokenizer has 1 item, and there are two models"


def test_the_page_of_words_has_maps_of_words(tokenizers: dict[str, Path]) -> None:
    heads = compare_models(SENTENCE, tokenizers["bert"], tokenizers["gpt2"]).view().heads

    assert heads is not None
    assert {len(head.query_axis.labels) for head in heads.heads} == {7, 9}
    assert all(head.scores is None for head in heads.heads)


def test_other_words_are_refused_by_the_first_that_differs() -> None:
    words_trace, spaces_trace = (trace("a b. c", tokenizer=name) for name in ("words", "spaces"))
    assert refusal_of(lambda: compare(words_trace, spaces_trace)) == (
        "the sentence is cut into different words, first 'b' in words and 'b.' in spaces",
        "compare models whose tokenizers find the same words in the sentence",
    )


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: compare_models(KEYS, "agreement", None), "b is None, and should be a model"),
        (
            lambda: compare(trace("I am"), trace("I am"), by="mask"),  # type: ignore[call-overload]
            "two finished Traces are compared as they are, but 'by' is given",
        ),
        (
            lambda: compare("I am", head=0),  # type: ignore[call-overload]
            "only two Traces are compared head by head, but 'head' is given",
        ),
        (
            lambda: compare("I am", trace("I am")),  # type: ignore[call-overload]
            "a text is compared with a Trace",
        ),
        (
            lambda: compare(trace("I am"), trace("I am"), names=("a", "a")),
            "names are what the two are called, and should be two different texts",
        ),
    ],
)
def test_the_library_says_what_it_cannot_compare(call: Callable[[], object], problem: str) -> None:
    with pytest.raises(AttnvizError) as error:
        call()

    assert str(error.value) == problem


def test_two_equal_runs_are_one_map_without_a_table_of_zeros() -> None:
    view = compare(trace("it was tired"), trace("it was tired")).view()
    (panel,) = view.screen.panels
    assert getattr(panel, "title", "") == "L0H0 · in both"
    assert view.render(".png")
    assert view.render(".html")
