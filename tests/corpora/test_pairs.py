"""Minimal pairs: which heads follow the meaning, the test of it, and pairs that are refused."""

from __future__ import annotations

import json
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz import AttnvizError, MinimalPairs, pairs, trace
from attnviz.renderers.terminal.lines import view_lines
from attnviz.renderers.terminal.screen import Screen
from attnviz.traces.trace import Provenance
from attnviz.wings.corpora.head_tests import LEVEL, sign_flip_test
from attnviz.wings.corpora.pair_file import MinimalPair, read_pairs
from attnviz.wings.corpora.pairs import MIN_SHIFT, measure_heads
from attnviz.wings.corpora.pairs_view import pair_sentences
from tests.conftest import ROOT, Attnviz
from tests.refusals import assert_refused
from tests.small_transformers import Saved

SAMPLE = ROOT / "sample_texts" / "pairs.tsv"
CAUSAL_SAMPLE = SAMPLE.with_name("pairs_causal.tsv")
START = "The animal did not cross the street because it was too"
ROW = (f"{START} tired.", f"{START} wide.", "it", "animal", "street")


def result_of(shifts: np.ndarray) -> MinimalPairs:
    """The result for heads that give a candidate half of the attention and a shift: pair head."""
    count, heads = shifts.shape
    weights = np.full((count, 2, 2, heads), 0.5)
    weights[:, 0, 0] += shifts
    weights[:, 1, 1] += shifts
    ranked, least_effect = measure_heads([(0, head) for head in range(heads)], weights, 42)
    return MinimalPairs(
        heads=ranked,
        least_effect=least_effect,
        pairs=(MinimalPair(*ROW),) * count,
        model="by hand",
        provenance=Provenance(
            version="", command=None, settings={}, seed=42, device="", dtype="", versions={}
        ),
    )


def p_values_by_loops(shifts: np.ndarray) -> list[float]:
    count, heads = shifts.shape
    statistics_by_signs = [
        [
            abs(sum(s * x for s, x in zip(signs, shifts[:, head], strict=True)))
            / np.sqrt((shifts[:, head] ** 2).sum())
            for head in range(heads)
        ]
        for signs in product((1, -1), repeat=count)
    ]
    return [
        sum(max(row) >= statistics_by_signs[0][head] - 1e-9 for row in statistics_by_signs)
        / len(statistics_by_signs)
        for head in range(heads)
    ]


@pytest.fixture(scope="module")
def sample_result() -> MinimalPairs:
    return pairs(SAMPLE)


def test_a_shift_is_what_the_traces_of_both_sentences_say(sample_result: MinimalPairs) -> None:
    assert len(sample_result.pairs) == 12
    assert len(sample_result.heads) == 72
    for number in (0, 2):
        pair = sample_result.pairs[number]
        weights = {}
        for side, sentence in enumerate(pair.sentences):
            sentence_trace = trace(sentence, model="minilm")
            query, *keys = (sentence_trace.tokens.find(word)[0] for word in pair.words)
            for candidate, key in enumerate(keys):
                weights[side, candidate] = sentence_trace.weights[:, :, query, key].numpy()
        shift = (weights[0, 0] - weights[1, 0] + weights[1, 1] - weights[0, 1]) / 2
        for head in sample_result.heads:
            assert head.shifts[number] == pytest.approx(float(shift[head.head_id]), abs=2e-6)


def test_the_labels_of_the_sentences_do_not_matter_and_the_candidates_turn_the_shift() -> None:
    first, second, token, one, other = ROW
    shifts = [
        {head.name: head.shift for head in pairs([row]).heads}
        for row in (ROW, (second, first, token, other, one), (first, second, token, other, one))
    ]
    assert shifts[0] == pytest.approx(shifts[1], abs=1e-6)
    assert shifts[0] == pytest.approx({name: -shift for name, shift in shifts[2].items()}, abs=1e-6)


def test_p_values_are_those_of_all_flips_of_signs() -> None:
    shifts = np.random.default_rng(3).normal(0.01, 0.02, (7, 5))
    p_values = sign_flip_test(shifts, np.ones(5, bool), 42).p_values
    assert p_values.tolist() == pytest.approx(p_values_by_loops(shifts))


def test_heads_that_are_not_tested_are_no_burden_for_the_others() -> None:
    shifts = np.random.default_rng(4).normal(0.01, 0.02, (8, 6))
    is_tested = np.array([True, False, True, False, False, False])
    p_values = sign_flip_test(shifts, is_tested, 42).p_values
    assert p_values[is_tested].tolist() == pytest.approx(p_values_by_loops(shifts[:, [0, 2]]))
    assert np.isnan(p_values[~is_tested]).all()


def test_p_values_of_many_pairs_are_near_those_of_all_flips(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shifts = np.random.default_rng(5).normal(0.006, 0.02, (12, 4))
    p_values_of_all = sign_flip_test(shifts, np.ones(4, bool), 42).p_values
    monkeypatch.setattr("attnviz.wings.corpora.head_tests.MAX_EXACT_OBSERVATIONS", 11)
    p_values_of_some = sign_flip_test(shifts, np.ones(4, bool), 42).p_values
    assert abs(p_values_of_all - p_values_of_some).max() < 0.02


def test_without_an_effect_a_head_passes_in_no_more_results_than_the_level() -> None:
    generator, passing_count = np.random.default_rng(6), 0
    for _ in range(300):
        shared_noise = generator.standard_t(3, (8, 1)) * 0.02
        shifts = shared_noise * generator.normal(size=(1, 30)) + generator.normal(0, 0.02, (8, 30))
        passing_count += np.nanmin(sign_flip_test(shifts, np.ones(30, bool), 42).p_values) <= LEVEL
    assert 0.01 < passing_count / 300 < LEVEL + 0.03


@given(
    count=st.integers(1, 9),
    heads=st.integers(1, 4),
    seed=st.integers(0, 10**6),
    effect=st.sampled_from([0.0, 0.001, 0.01, 0.05, -0.05]),
    noise=st.sampled_from([0.0, 0.0005, 0.01, 0.05]),
)
def test_the_headline_is_true_of_every_result(
    count: int, heads: int, seed: int, effect: float, noise: float
) -> None:
    shifts = np.random.default_rng(seed).normal(0, noise, (count, heads))
    shifts[:, 0] += effect
    result = result_of(shifts)
    headline, means = result.view().headline, shifts.mean(0)
    sizes = np.sqrt((shifts**2).mean(0))
    tested_heads = [head for head in range(heads) if sizes[head] >= MIN_SHIFT]
    p_values = dict(zip(tested_heads, p_values_by_loops(shifts[:, tested_heads]), strict=True))
    following_heads = [
        head for head in tested_heads if means[head] >= MIN_SHIFT and p_values[head] <= LEVEL
    ]
    if count < 6:
        assert not following_heads
        assert "cannot show that a head follows the meaning; 6 or more are needed" in headline
    elif not following_heads:
        subject = "The only head is" if heads == 1 else f"None of {heads} heads is"
        assert headline.replace("is not", "is") == (
            f"{subject} shown to follow the meaning in {count} pairs"
        )
    else:
        strongest = max(following_heads, key=lambda head: means[head])
        assert f"L0H{strongest} moves " in headline
        assert headline.startswith(
            "The only head follows"
            if heads == 1
            else f"One of {heads} heads follows"
            if len(following_heads) == 1
            else f"{len(following_heads)} of {heads} heads follow the meaning"
        )
    assert f"In {result.heads[0].name}, a candidate gets" in pair_sentences(result)[0]


def test_a_head_that_moves_away_is_named_and_does_not_follow() -> None:
    result = result_of(np.array([[-0.05, 0.0], [-0.04, 0.0]] * 4))
    assert result.view().headline == "None of 2 heads is shown to follow the meaning in 8 pairs"
    assert pair_sentences(result)[1] == "L0H0 moves away from the candidate that is meant."


def test_too_few_pairs_say_what_p_can_be() -> None:
    result = result_of(np.full((5, 2), 0.05))
    assert result.view().headline == (
        "5 pairs cannot show that a head follows the meaning; 6 or more are needed"
    )
    assert "with 5 pairs it cannot be below .063" in pair_sentences(result)[-1]


def test_pairs_fit_a_terminal_of_24_lines(sample_result: MinimalPairs) -> None:
    lines = [line.plain for line in view_lines(sample_result.view(), Screen(80, 24))]
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("None of 72 heads is shown to follow the meaning in 12 pairs")
    assert any(line.startswith("L3H7   1.7 █") for line in lines)
    assert any(line.endswith("16.5, 14.8 · 0.5 to 3.2 · 10 of 12 · p .12") for line in lines)


@pytest.mark.slow("models")
def test_a_causal_model_can_be_asked_about_the_pairs_made_for_it() -> None:
    causal_pairs = read_pairs(CAUSAL_SAMPLE)
    for pair in causal_pairs:
        first, second = (sentence.split() for sentence in pair.sentences)
        [place] = [
            i for i, words in enumerate(zip(first, second, strict=True)) if len({*words}) > 1
        ]
        assert place < first.index(pair.token)

    result = pairs(CAUSAL_SAMPLE, model="smollm2")

    assert result.has_enough
    assert len(result.heads) == 270
    shifts = np.array([head.shifts for head in result.heads])
    assert shifts.shape == (270, len(causal_pairs))
    assert abs(shifts).max() > MIN_SHIFT


def test_the_command_writes_a_line_for_each_head_and_the_shift_in_each_pair(
    attnviz: Attnviz, samples: Path
) -> None:
    result = attnviz("pairs", "sample_texts/pairs.tsv", "-q", "-o", "a.csv", "-o", "a.json")
    assert result.status == 0, result.err
    lines = Path("a.csv").read_text("utf-8").splitlines()
    assert lines[0] == "layer,head,name,shift,low,high,p,p alone,follows,meant,other,toward,pairs"
    assert len(lines) == 73
    document = json.loads(Path("a.json").read_text("utf-8"))
    assert document["attnviz"]["command"] == (
        "attnviz pairs sample_texts/pairs.tsv --model minilm --out a.csv --out a.json --quiet"
    )
    for head in document["heads"]:  # alone, none is held against the most consistent of all
        assert head["p"] is None or head["p alone"] <= head["p"]
    assert len(document["heads"][0]["shifts"]) == len(document["pairs"]) == 12


def test_a_candidate_may_be_several_words_and_a_word_several_tokens() -> None:
    text = "Misunderstandings of the city council grew, and it was not it that {} violence."
    words = "it#2", "city council", "Misunderstandings"
    rows = [(text.format("feared"), text.format("wanted"), *words)]
    [head] = [head for head in pairs(rows).heads if head.name == "L0H0"]
    traces = [trace(row, model="minilm") for row in rows[0][:2]]
    query = traces[0].tokens.find("it")[1]
    labels = traces[0].tokens.labels
    keys = [
        [labels.index("city"), labels.index("council")],
        [*range(1, labels.index("of"))],
    ]
    assert len(keys[1]) > 1
    weights = [[float(each.weights[0, 0, query, key].sum()) for key in keys] for each in traces]
    shift = (weights[0][0] - weights[1][0] + weights[1][1] - weights[0][1]) / 2
    assert head.shift == pytest.approx(shift, abs=1e-6)


COLUMNS_HINT = (
    "a pair is one line, with tabs between its columns: sentence A, sentence B, token, "
    "candidate 1, candidate 2"
)
BAD_FILES = {
    "empty": ("", "'bad.tsv' holds no pairs", COLUMNS_HINT),
    "comments only": ("# A\tB\n\n", "'bad.tsv' holds no pairs", COLUMNS_HINT),
    "spaces": (
        "\nThe dog ran. The dog hid.\n",
        "line 2 of 'bad.tsv' has 1 column, and a pair has 5",
        COLUMNS_HINT,
    ),
    "no token": (
        "The dog saw it\tThe dog hid it\t \tdog\tThe",
        "line 1 of 'bad.tsv' has no token",
        COLUMNS_HINT,
    ),
    "equal": (
        "The dog ran\tThe dog ran\tran\tdog\tThe",
        "line 1 of 'bad.tsv': both sentences are the same",
        "change a word in one of them, so that the token means the other candidate",
    ),
    "equal to the model": (
        "The dog saw it\tThe Dog saw it\tit\tsaw\tThe",
        "line 1 of 'bad.tsv': the sentences are the same tokens of the model 'minilm'",
        "change a word, so that the token means the other candidate",
    ),
    "missing candidate": (
        "The dog saw it\tThe dog hid it\tit\tdogg\tThe",
        "line 1 of 'bad.tsv': sentence A has no 'dogg'",
        "did you mean 'dog'? its words are: The, dog, saw, it",
    ),
    "missing token": (
        "The dog saw it\tThe dog hid it\tsaw\tdog\tThe",
        "line 1 of 'bad.tsv': sentence B has no 'saw'",
        "its words are: The, dog, hid, it",
    ),
    "several": (
        "It is it\tIs it it\tis\tit\tIt",
        "line 1 of 'bad.tsv': sentence B has no 'is'",
        "its words are: Is, it, it",
    ),
    "twice": (
        "He saw it and it ran\tHe saw it and it hid\tit\tHe\tsaw",
        "line 1 of 'bad.tsv': 'it' is there 2 times in sentence A",
        "say which one is meant: it#1 is the first, it#2 the second",
    ),
    "more tokens": (
        "The dog saw it\tThe dog misunderstandings it\tit\tdog\tThe",
        "line 1 of 'bad.tsv': the sentences do not split into the same number of tokens: 6 and 7",
        "choose words of as many tokens where they differ: 'saw' and 'misunderstanding s'",
    ),
    "another place": (
        "The dog saw it\tThe it saw dog\tit\tdog\tThe",
        "line 1 of 'bad.tsv': 'it' is token 5 of sentence A, and 3 of B",
        "keep its place: a change of place would look like one of meaning",
    ),
    "the same word": (
        "The dog saw it\tThe dog hid it\tit\tit\tThe",
        "line 1 of 'bad.tsv': two of 'it', 'it' and 'The' are the same word",
        "give a token and two candidates that differ from it",
    ),
    "repeated": (
        "The dog saw it\tThe dog hid it\tit\tdog\tThe\n"
        "The dog hid it\tThe dog saw it\tit\tThe\tdog",
        "line 2 of 'bad.tsv' repeats line 1 of 'bad.tsv'",
        "leave one of them out: the test counts each pair as one observation",
    ),
    "too long": (
        f"The dog saw it {'x ' * 600}\tThe dog hid it {'x ' * 600}\tit\tdog\tThe",
        "line 1 of 'bad.tsv': the text has 606 tokens, but the model 'minilm' only has positions "
        "for 512",
        "give shorter sentences",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_pair_is_refused_with_its_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attnviz: Attnviz
) -> None:
    content, problem, hint = BAD_FILES[name]
    monkeypatch.chdir(tmp_path)
    Path("bad.tsv").write_text(content, "utf-8")
    assert_refused(attnviz("pairs", "bad.tsv"), problem, hint)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (
            ("x it so the dog saw a cat", "z it so the dog saw a cat", "it", "dog", "cat"),
            "pair 1: the model hides 'dog' from 'it' in every head",
        ),
        (
            ("the dog saw a cat so it x", "the dog saw a cat so it z", "it", "dog", "cat"),
            "pair 1: the sentences differ only after 'it', and the model reads from left to right",
        ),
    ],
)
def test_a_model_that_reads_from_left_to_right_gets_pairs_that_it_can_tell_apart(
    row: tuple[str, ...], problem: str, small_transformer: Saved
) -> None:
    with pytest.raises(AttnvizError) as error:
        pairs([row], model=str(small_transformer("gpt2")))
    assert str(error.value) == problem


def test_all_lines_are_named_whose_token_stands_before_what_changes(
    small_transformer: Saved,
) -> None:
    row = "the dog saw a cat so it {}", "dog", "cat"
    ends = ["x y", "x z", "y z", "y x", "z x", "z y", "x x"]
    late_rows = [(row[0].format(a), row[0].format(b), "it", *row[1:]) for a, b in pairwise(ends)]
    good_row = ("x dog saw a cat so it ran", "z dog saw a cat so it ran", "it", "dog", "cat")
    model = str(small_transformer("gpt2"))

    with pytest.raises(AttnvizError) as error_of_one:
        pairs([good_row, late_rows[0]], model=model)
    with pytest.raises(AttnvizError) as error_of_many:
        pairs([good_row, *late_rows], model=model)

    advice = "give a token that stands after the word that changes; the same holds for"
    assert error_of_one.value.hint == advice.partition(";")[0]
    assert str(error_of_many.value).startswith("pair 2: the sentences differ only after 'it'")
    assert error_of_many.value.hint == f"{advice} pair 3, pair 4, pair 5 and 2 more"


def test_rows_that_are_no_pairs_are_refused_without_loading_a_model() -> None:
    for source, problem in (
        ([("a", "b")], "pair 1 has 2 columns, and a pair has 5"),
        (["a b c d e"], "pair 1 has 0 columns, and a pair has 5"),
        (
            [("a", "b", "c", "d", 5)],
            "pair 1 has columns that are not texts: a token is a word, not a number",
        ),
        ([], "the list holds no pairs"),
        (7, "pairs is of type int, and should be a file or several pairs"),
    ):
        with pytest.raises(AttnvizError) as error:
            read_pairs(source)
        assert str(error.value) == problem


def test_that_no_head_passes_is_followed_by_how_large_a_shift_would_have() -> None:
    shifts = np.random.default_rng(9).normal(0.0, 0.05, (8, 3))
    result = result_of(shifts)
    assert not result.following
    *_, sentence = pair_sentences(result)
    top, least = result.heads[0], result.least_effect
    needed = f"{100 * least * np.std(top.shifts, ddof=1):.1f}\u00a0%"
    assert sentence.endswith(f"of the head's shifts or more (for {top.name}, {needed}).")
    moved = shifts.copy()
    moved[:, 0] += 1.01 * least * shifts[:, 0].std(ddof=1) - shifts[:, 0].mean()
    if sign_flip_test(moved, np.ones(3, bool), 42).least_effect <= 1.01 * least:
        assert result_of(moved).following
    assert "is shown only if" not in pair_sentences(result_of(shifts + 0.5))[-1]
