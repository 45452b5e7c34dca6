"""`attnviz inspect`: what it says and shows, on a terminal and in files; each claim is true."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attnviz.analysis.inspection import patterns, token_query
from attnviz.analysis.inspection.inspection import Inspection, inspect
from attnviz.analysis.inspection.token_query import build_link
from attnviz.cells import FULL_SLICE
from attnviz.errors import AttnvizError
from attnviz.renderers.terminal.lines import view_lines
from attnviz.renderers.terminal.screen import Screen
from attnviz.traces.external.from_weights import from_weights
from attnviz.views.grids.words_and_bars import Arcs, RankedBars, Sentence
from attnviz.views.view import View
from tests.base_rates import base_of, others_of
from tests.conftest import Attnviz
from tests.refusals import refusal_lines
from tests.small_transformers import Saved
from tests.test_looking import inspect_trace, small_trace, stacked_weights

SENTENCE = "The animal didn't cross the street because it was too tired"
SMALL_SCREEN = Screen(80, 24)


@pytest.fixture(scope="module")
def minilm() -> Inspection:
    return inspect(SENTENCE)


def eager(minilm: Inspection) -> np.ndarray:
    """What the model itself returns: [layer head query key]."""
    import torch

    from attnviz.traces.settings import Settings
    from attnviz.traces.trained.loading import load_transformer

    model = load_transformer(Settings(model="minilm")).model
    ids = torch.tensor([minilm.trace.tokens.ids])
    with torch.no_grad():
        attentions = model(input_ids=ids, output_attentions=True).attentions
    return np.stack([each[0].numpy() for each in attentions])


def screen_lines(view: View, screen: Screen = SMALL_SCREEN) -> list[str]:
    return [line.plain.rstrip() for line in view_lines(view, screen)]


def lift_of(weights: np.ndarray, query: int, key: int, special: Sequence[int] = ()) -> float:
    return float(weights[query, key]) - base_of(weights, query, key, special)


def in_per_cent(share: float) -> str:
    return f"{100 * share:.0f}\u00a0%"


def test_the_head_that_links_it_to_animal_is_the_one_in_which_others_do_not_attend_to_it(
    minilm: Inspection, attnviz: Attnviz
) -> None:
    """In L5H11 it has a larger weight: there most tokens attend to "animal"."""
    model_weights = eager(minilm).reshape(72, 15, 15)
    lifts = [lift_of(each, 10, 2, special=(0, 14)) for each in model_weights]
    best = int(np.argmax(lifts))
    weight = model_weights[best, 10, 2]
    view = inspect_trace(minilm.trace, source="it", to="animal").view()
    result = attnviz("inspect", SENTENCE, "--from", "it", "--to", "animal")

    assert minilm.trace.tokens.labels[10] == "it"
    assert (best // 12, best % 12) == (3, 1)
    assert model_weights[:, 10, 2].argmax() == 71  # which is L5H11
    assert view.headline == (
        f'In L3H1, "it" gives "animal" {in_per_cent(weight)} of its attention; the other tokens '
        f'give "animal" {in_per_cent(weight - lifts[best])}'
    )
    assert view.closing == (
        f"{view.headline}: the largest difference among 72 heads.",
        f"L5H11 follows with {in_per_cent(model_weights[71, 10, 2])} (the other tokens give "
        f'"animal" {in_per_cent(model_weights[71, 10, 2] - lifts[71])}), but most tokens attend to '
        f'"animal" there; the mean of all heads is {in_per_cent(model_weights[:, 10, 2].mean())}.',
    )
    assert result.status == 0
    assert view.closing[0] in re.sub("[ \n]+", " ", result.out)


def test_rank_weight_goes_by_the_weight_alone(minilm: Inspection, attnviz: Attnviz) -> None:
    link_weights = eager(minilm).reshape(72, 15, 15)[:, 10, 2]
    view = inspect_trace(minilm.trace, source="it", to="animal", rank="weight").view()
    ranked = view.screen.panels[0]
    assert isinstance(ranked, RankedBars)

    assert ranked.grid.values[:, 0].tolist() == pytest.approx(sorted(link_weights, reverse=True))
    assert view.headline.startswith('In L5H11, "it" gives "animal"')
    assert "the largest weight among 72 heads, but most tokens attend to" in view.closing[0]
    assert view.command is not None
    assert "--rank weight" in view.command.line
    result = attnviz("inspect", SENTENCE, "--rank", "weight")
    assert result.err == (
        "error: --rank weight sorts heads by one link, and no link is given\n"
        " hint: name the two tokens of the link: --from it --to animal\n"
    )


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"source": "it", "to": "animal"},
        {"query": "it"},
        {"query": "it", "hide_special": True, "words": True},
        {"merge": "rollout", "words": True, "hide_special": True},
        {"layer": 4, "head": 7},
    ],
)
def test_what_matters_fits_a_small_terminal(minilm: Inspection, choices: dict[str, Any]) -> None:
    view = inspect_trace(minilm.trace, **choices).view()
    lines = screen_lines(view)
    heading = lines.index("") + 1 if "" in lines else 0  # empty lines are left out to make room

    assert len(lines) - heading <= SMALL_SCREEN.rows
    assert max(map(len, lines)) <= 80


def test_one_head_is_drawn_as_lines_and_all_are_refused_with_the_command_of_one(
    minilm: Inspection,
) -> None:
    one = minilm.trace.view(layer=5, head=11, as_="arcs")
    [arcs] = one.picture.panels
    weights = minilm.trace.layers[5].attended.weights[11].numpy()
    with pytest.raises(AttnvizError, match="the lines of 72 heads leave room for only") as error:
        minilm.trace.view(as_="arcs").render(".svg", size=(13.333, 7.5))
    in_hint = error.value.hint.partition("draw one head: ")[2].partition("; or ")[0]
    call = eval(in_hint.removesuffix('.save("head.png")'), {"inspect": lambda *a, **k: (a, k)})

    assert isinstance(arcs, Arcs)
    assert np.array_equal(arcs.grid.values, weights)
    assert call[0] == (SENTENCE,)
    all_weights = stacked_weights(minilm.trace).reshape(72, 15, 15)
    standing_out = (all_weights - all_weights.mean(0)).reshape(72, -1).max(1)
    layer, head = divmod(int(standing_out.argmax()), 12)
    assert {"layer": layer, "head": head, "as_": "arcs"}.items() <= call[1].items()


@pytest.mark.slow("pictures")
@pytest.mark.parametrize(
    "words", [["inspect", "--as=arcs"], ["run", "--model=minilm", "--query=it", "--as=sentence"]]
)
def test_many_heads_in_words_are_refused_with_a_command_that_can_be_pasted(
    attnviz: Attnviz, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command, *options = words
    problem, hint = refusal_lines(attnviz(command, SENTENCE, *options, "--size=16:9", "-o=x.png"))
    assert "of 72 heads leave room for only" in problem
    pasted = shlex.split(hint.partition("draw one head: ")[2].partition("; or ")[0])
    assert "None" not in pasted
    assert attnviz(*pasted[1:]).status == 0
    assert Path("head.png").stat().st_size


def test_lines_of_a_head_need_a_picture(attnviz: Attnviz) -> None:
    result = attnviz("inspect", SENTENCE, "--layer", "5", "--head", "11", "--as", "arcs")

    assert result.status == 2
    assert "--as arcs draws lines in a picture, and no picture is written" in result.err


def test_no_seed_is_said_of_a_model_that_was_trained(minilm: Inspection) -> None:
    view = minilm.view()

    assert view.settings == (
        "attention of the model minilm · 15 tokens (minilm) · bert, 22.7 million parameters · "
        "6 layers × 12 heads of width 32 · all tokens visible · cpu float32"
    )
    assert view.title == "attention of the model minilm"
    assert not view.screen.caveat


def test_special_tokens_are_said_to_be_read_most_where_they_are(minilm: Inspection) -> None:
    rows = eager(minilm)[:, :, 10].reshape(72, -1)
    most = int(np.isin(rows.argmax(-1), (0, 14)).sum())

    view = inspect_trace(minilm.trace, query="it").view()

    start = f'In {most} of 72 heads, "it" attends most to [CLS] or [SEP]; --hide-special leaves out'
    assert view.closing[0].startswith(start)
    assert most > 36
    assert not inspect_trace(small_trace(), query="done").view().closing


def test_where_most_heads_attend_to_a_sink_links_are_ranked_by_what_other_tokens_do_not(
    minilm: Inspection,
) -> None:
    weights = eager(minilm).reshape(72, 15, 15)
    lifts = np.full((72, 15), -np.inf)
    for key in {*range(1, 14)} - {10}:  # the token itself is no link, nor special ones
        lifts[:, key] = [lift_of(each, 10, key, special=(0, 14)) for each in weights]
    heads = np.argsort(-lifts.max(-1))[:20]
    labels = minilm.trace.tokens.labels

    view = inspect_trace(minilm.trace, query="it").view()
    by_token, by_head = (each for each in view.screen.panels if isinstance(each, RankedBars))
    ranked_links = inspect_trace(minilm.trace, query="it").ranking

    assert [link.name for link in ranked_links[:20]] == [
        f"L{head // 12}H{head % 12}" for head in heads
    ]
    assert view.headline.startswith(f'In {ranked_links[0].name}, "it" gives "tired" 69')
    targets = [labels[lifts[head].argmax()] for head in heads]
    assert [words.split()[-1].strip('"') for words in by_head.remarks[:20]] == targets
    mean = weights[:, 10].mean(0)
    others = weights[:, [*range(1, 10), 11, 12, 13], 0].mean()
    assert by_token.grid.rows.labels[-1] == "[CLS]"
    assert_allclose(by_token.grid.values[-1], [mean[0], others], atol=1e-5)


def test_a_sink_that_is_all_there_is_and_a_token_that_sees_no_other_are_stated() -> None:
    sink = np.zeros((1, 2, 4, 4))
    sink[..., 0] = 1  # every token attends to the first alone
    sink_view = inspect_trace(from_weights(sink, ["The", "sky", "is", "blue"]), query="blue").view()
    alone_view = inspect_trace(small_trace(variant="causal"), query=0).view()

    assert sink_view.headline == (
        'In no head does "blue" attend to any token more than the other tokens attend to it, or '
        "at the same distance"
    )
    assert sink_view.closing == (
        'In both heads, "blue" attends most to the first token, "The"; --hide-first leaves it out.',
    )
    first = small_trace().tokens.labels[0]
    assert alone_view.headline == f'"{first}" can attend only to itself, in every head'
    assert not alone_view.closing


def test_how_much_is_left_out_is_said_of_the_token_that_is_asked_for_or_of_all(
    minilm: Inspection,
) -> None:
    shares = eager(minilm)[..., [0, 14]].sum(-1)
    shares_by_wording = {"": shares[:, :, 1:-1].mean(-1), ' of "it"': shares[:, :, 10]}
    for (of_token, shares_by_head), query in zip(
        shares_by_wording.items(), (None, "it"), strict=True
    ):
        layer, head = np.unravel_index(shares_by_head.argmax(), shares_by_head.shape)
        mean, most = map(in_per_cent, (shares_by_head.mean(), shares_by_head.max()))
        sentence = inspect_trace(minilm.trace, query=query, hide_special=True).view().closing[-1]
        assert sentence == (
            f"Left out: [CLS] and [SEP]; on average over 72 heads they get {mean} of the attention"
            f"{of_token} (most in L{layer}H{head}: {most}); the other numbers are unchanged."
        )


def test_what_is_left_out_is_counted_by_the_numbers_that_are_shown(minilm: Inspection) -> None:
    rollout_row = inspect_trace(minilm.trace, merge="rollout").maps[0].cells.row(10).values[0]
    closing = (
        inspect_trace(minilm.trace, merge="rollout", query="it", hide_special=True)
        .view()
        .closing[-1]
    )
    start = (
        f"in the rollout through 6 layers they get {in_per_cent(rollout_row[0] + rollout_row[14])}"
    )
    assert f'{start} of what "it" draws on' in closing
    heads = [
        each.cells.row(10).values[0] for each in inspect_trace(minilm.trace, weigh="norm").maps
    ]
    mean = np.mean([(row[0] + row[14]) / row.sum() for row in heads])
    closing_by_norm = (
        inspect_trace(minilm.trace, weigh="norm", query="it", hide_special=True).view().closing
    )
    start = f'they get {in_per_cent(mean)} of the weight × length of "it"'
    assert any(start in sentence for sentence in closing_by_norm)


LINK_HEADLINE = re.compile(
    r'In (L\dH\d(?: and L\dH\d)*|\d heads), "mat" gives "cat" (\d+)\u00a0% of its attention'
    r"; (?:the other tokens give (it|the token 4 places before them) (\d+)\u00a0%|"
    r"no third token can attend to it)"
)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("variant", ["scaled", "causal", "average"])
@pytest.mark.parametrize("rank", ["lift", "weight"])
def test_what_is_said_of_a_link_is_so(variant: str, seed: int, rank: str) -> None:
    trace = small_trace("a cat sat on a mat", variant=variant, seed=seed)
    view = inspect_trace(trace, source="mat", to="cat", rank=rank).view()
    heads = stacked_weights(trace).reshape(6, 6, 6)
    bases = np.array([base_of(each, 5, 1) for each in heads])
    others = np.array([others_of(each, 5, 1) for each in heads])
    link_weights = heads[:, 5, 1]
    lifts = link_weights - bases
    if max(link_weights - others) <= 1e-6:
        assert view.headline == 'In no head does "mat" attend to "cat" more than other tokens do'
        assert view.closing[1].startswith("The nearest: In ")
        return
    score = lifts if rank == "lift" else link_weights
    best = int(score.argmax())
    match = LINK_HEADLINE.match(view.headline)
    assert match, view.headline
    assert match[1] == f"L{best // 3}H{best % 3}"
    assert [match[2], match[4]] == [f"{100 * n:.0f}" for n in (link_weights[best], bases[best])]
    assert (match[3] == "it") == (bases[best] == others[best])
    assert f"the mean of all heads is {in_per_cent(link_weights.mean())}" in view.closing[1]
    second_best = int(np.argsort(-score)[1])
    assert view.closing[1].startswith(f"L{second_best // 3}H{second_best % 3} follows with ")
    assert ("no more than even attention" in " ".join(view.closing)) == (
        link_weights[best] <= 1 / 6
    )


def test_where_no_other_token_can_attend_to_a_key_its_weight_is_what_counts() -> None:
    """Causal: the last token is seen by itself alone, the one before it by the last as well."""
    trace = small_trace("a cat sat", variant="causal")
    bases = {
        "sat": "the other tokens give themselves",
        "cat": "no third token can attend to it",  # the first token is no example of a distance
        "a": "the other tokens give it",
    }
    for key, base in bases.items():
        view = inspect_trace(trace, source="sat", to=key).view()
        assert f"; {base}" in view.headline
    ranked = inspect_trace(trace, source="sat", to="cat").view().screen.panels[0]
    assert isinstance(ranked, RankedBars)
    assert (
        ranked.grid.values[:, 0].tolist()
        == sorted(stacked_weights(trace)[:, :, 2, 1].ravel())[::-1]
    )
    assert np.isnan(ranked.grid.values[:, 1]).all()


@pytest.mark.parametrize("choices", [{"words": True}, {"weigh": "norm"}, {"merge": "mean"}])
def test_others_are_the_means_of_what_is_shown(minilm: Inspection, choices: dict[str, Any]) -> None:
    """The means are computed with loops over the maps that are shown."""
    looking = inspect_trace(minilm.trace, source="it", to="animal", **choices)
    rows = looking.maps[0].rows
    left_out = {"it", "animal", "[CLS]", "[SEP]"}
    ranked = {
        each.map.name: each for each in build_link(looking.maps, looking.options).ranked_links
    }
    for each in looking.maps[::10]:
        column = each.cells.window(FULL_SLICE, FULL_SLICE).values[:, rows.labels.index("animal")]
        others = [column[row] for row, label in enumerate(rows.labels) if label not in left_out]
        assert ranked[each.name].others.count == len(others)
        assert ranked[each.name].others.mean == pytest.approx(np.mean(others))


@pytest.mark.parametrize("choices", [{}, {"words": True}, {"hide_special": True}])
def test_what_other_tokens_give_each_key_is_as_of_each_link(
    minilm: Inspection, choices: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_query, "CELLS_PER_BAND", 40)  # several bands
    inspection = inspect_trace(minilm.trace, query="it", layer=5, **choices)
    reading = token_query.build_token_query(inspection.maps, inspection.options, "it").map_rows[11]
    for key, label in enumerate(reading.map.columns.labels):
        number = str(reading.map.columns.numbers[key])
        name = label if label == "animal" else number
        linked = inspect_trace(minilm.trace, source="it", to=name, layer=5, head=11, **choices)
        link = build_link(linked.maps, linked.options)
        assert reading.other_weights[key] == pytest.approx(link.ranked_links[0].others.mean)


def test_the_numbers_of_a_query_have_those_of_other_tokens_beside_them(minilm: Inspection) -> None:
    view = inspect_trace(minilm.trace, query="it", layer=5, head=11).view()
    rows = [*csv.reader(io.StringIO(view.render(".csv").decode()))]
    [animal] = [row for row in rows if row[6] == "animal"]
    weights = eager(minilm)[5, 11]
    assert rows[0][-4:] == ["weight", "visible", "others", "base"]
    for number, expected in zip(animal[-2:], (others_of, base_of), strict=True):
        assert float(number) == pytest.approx(expected(weights, 10, 2, (0, 14)), abs=1e-5)


def test_gradients_are_ranked_by_their_distance_from_the_others(small_transformer: Saved) -> None:
    inspection = inspect("the cat saw the dog", model=str(small_transformer("gpt2")),
                         weigh="gradient", words=True, source="dog", to="cat")  # fmt: skip
    lifts = [each.lift for each in build_link(inspection.maps, inspection.options).ranked_links]

    assert min(lifts) < 0 < max(lifts)
    assert [abs(each) for each in lifts] == sorted(map(abs, lifts), reverse=True)
    assert "the difference furthest from 0 among" in inspection.view().closing[0]


def test_a_head_is_marked_where_most_others_give_the_key_their_largest_weight(
    minilm: Inspection,
) -> None:
    model_weights = eager(minilm).reshape(72, 15, 15)
    ranked = inspect_trace(minilm.trace, source="it", to="animal").view().screen.panels[0]
    assert isinstance(ranked, RankedBars)
    others = [row for row in range(15) if row not in (0, 2, 10, 14)]
    for name, remark in zip(ranked.grid.rows.labels, ranked.remarks, strict=True):
        layer, head = map(int, name[1:].split("H"))
        most = sum(model_weights[layer * 12 + head, row].argmax() == 2 for row in others)
        assert (remark == "most tokens attend to it") == (2 * most > len(others))
    assert [each for each in ranked.remarks if each == "most tokens attend to it"]


def test_of_a_long_text_every_so_many_others_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "MAX_SAMPLED_CELLS", 1)
    monkeypatch.setattr(patterns, "MIN_SAMPLED_QUERIES", 4)
    monkeypatch.setattr(token_query, "CELLS_PER_BAND", 16)  # a band of two rows
    trace = small_trace("a b c d e f g h", tokenizer="words")
    looking = inspect_trace(trace, source="h", to="b")
    first = build_link(looking.maps, looking.options).ranked_links[0]
    layer, head = int(first.map.name[1]), int(first.map.name[3])
    assert first.others.count == 4  # the first of each two, of which none is one of the link
    assert first.others.mean == pytest.approx(stacked_weights(trace)[layer, head, ::2, 1].mean())
    note = looking.view().screen.panels[0].grid.note  # type: ignore[union-attr]
    assert 'from every 2nd of the other tokens to "b", or at its distance, if more' in note


def test_only_a_map_that_is_alone_has_a_list_of_what_it_reads() -> None:
    word_panel, *others = (
        inspect_trace(small_trace(), query="done", layer=1, head=2).view().screen.panels
    )
    assert isinstance(word_panel, Sentence)
    assert word_panel.has_bars
    assert not others

    sentence, tokens, heads = inspect_trace(small_trace(), query="done").view().screen.panels
    assert isinstance(sentence, Sentence)
    assert not sentence.has_bars
    assert isinstance(tokens, RankedBars)
    assert isinstance(heads, RankedBars)
    assert heads.grid.rows.labels[0] in heads.grid.rows.names
    assert [len(each.remarks) for each in (tokens, heads)] == [len(sentence.grid.columns), 6]


def test_bars_are_as_long_as_their_numbers() -> None:
    lines = screen_lines(
        inspect_trace(small_trace(variant="causal"), source="done", to="now").view()
    )
    bars = [re.match(r"L\dH\d \.(\d\d) (.*?)  others \.(\d\d)", line) for line in lines]
    weights_and_bars = [(int(bar[1]), int(bar[3]), bar[2]) for bar in bars if bar]

    assert len(weights_and_bars) >= 5
    reach = max(max(pair[:2]) for pair in weights_and_bars)
    room = max(len(bar) for *_, bar in weights_and_bars)
    for weight, others, bar in weights_and_bars:
        drawn_bar = re.sub(r"│(?=[█▏▎▍▌▋▊▉])", "█", bar).rstrip(" │")
        assert abs(len(drawn_bar) - weight / reach * room) <= 2
        assert abs(bar.index("│") - others / reach * room) <= 2


@pytest.mark.slow_table("formats", keep=3)
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".md", ".txt", ".json", ".csv", ".npz"])
def test_every_kind_of_file_has_a_ranking(suffix: str) -> None:
    choices = {"query": "done"} if suffix in (".svg", ".md") else {"source": "done", "to": "now"}
    content = inspect_trace(small_trace(), **choices).view().render(suffix)

    assert len(content) > 100
    if suffix in (".svg", ".md", ".txt"):
        text = content.decode()
        assert "L0H0" in text
        assert "done" in text


def test_a_line_of_data_for_each_head_that_is_ranked() -> None:
    trace = small_trace()
    rows = list(csv.DictReader(io.StringIO(csv_of(trace, source="done", to="now"))))
    link_weights = stacked_weights(trace)[:, :, -1, 3]

    assert sorted(float(row["weight"]) for row in rows) == sorted(link_weights.ravel().tolist())
    assert [float(row["lift"]) for row in rows] == sorted(
        (float(row["lift"]) for row in rows), reverse=True
    )
    for row in rows:
        matrix = stacked_weights(trace)[int(row["layer"]), int(row["head"])]
        lift = lift_of(matrix, len(matrix) - 1, 3)
        assert float(row["lift"]) == pytest.approx(lift)
        assert float(row["weight"]) - float(row["base"]) == pytest.approx(lift)
        assert float(row["others"]) == pytest.approx(others_of(matrix, len(matrix) - 1, 3))
        layer, head = int(row["layer"]), int(row["head"])
        assert float(row["weight"]) == pytest.approx(link_weights[layer, head])
        token_row = stacked_weights(trace)[layer, head, -1]
        assert float(row["rank in its row"]) == 1 + (token_row > link_weights[layer, head]).sum()
        assert row["most read"].startswith(f"{token_row.argmax() + 1} ")


def test_a_line_of_data_for_each_weight_that_is_looked_at() -> None:
    trace = small_trace()
    rows = list(csv.DictReader(io.StringIO(csv_of(trace, layer=1, head=0, hide_first=True))))

    assert len(rows) == (len(trace.tokens) - 1) ** 2
    assert (rows[0]["name"], rows[0]["query number"], rows[0]["key number"]) == ("L1H0", "2", "2")
    assert_allclose(
        [float(row["weight"]) for row in rows],
        stacked_weights(trace)[1, 0, 1:, 1:].ravel(),
        atol=1e-7,
    )


def csv_of(trace: Any, **choices: Any) -> str:
    return inspect_trace(trace, **choices).view().render(".csv").decode()


def test_data_hold_the_trace_and_what_was_looked_at(attnviz: Attnviz, tmp_path: Path) -> None:
    file = tmp_path / "looked.json"
    inspect_trace(small_trace(), words=True, merge="mean").view().save(file)
    document = json.loads(file.read_text())

    assert document["inspection"]["looking"] == {"merge": "mean", "words": True}
    (mean,) = document["inspection"]["maps"]
    assert_allclose(np.sum(mean["weights"], axis=-1), 1, atol=1e-6)
    result = attnviz("inspect", "--trace", str(file), "--from", "done", "--to", "now")
    assert result.status == 0
    assert "among 6 heads" in result.out


def test_colours_by_the_logarithm_change_no_number() -> None:
    plain_view, log_view = (
        inspect_trace(small_trace(), merge="mean", log=each).view() for each in (False, True)
    )
    plain_grid, log_grid = plain_view.screen.panels[0], log_view.screen.panels[0]

    assert (plain_grid.scale.bend, log_grid.scale.bend) == ("straight", "log")  # type: ignore[union-attr]
    assert log_grid.scale.low == pytest.approx(1e-3)  # type: ignore[union-attr]
    assert plain_view.render(".txt") == log_view.render(".txt")
    assert screen_lines(plain_view, Screen(80, 24, numbers=True)) == screen_lines(
        log_view, Screen(80, 24, numbers=True)
    )


def test_formulas_stand_in_captions() -> None:
    for merge, formula in (
        ("mean", "/ their number"),
        ("max", "the largest"),
        ("rollout", "½ mean"),
    ):
        assert formula in inspect_trace(small_trace(), merge=merge).view().picture.caption


def test_query_heads_say_whose_keys_they_share() -> None:
    trace = small_trace(heads=4, kv_heads=2)
    lines = screen_lines(inspect_trace(trace, source="done", to="now").view(), Screen(80))

    assert {"L0H0 (kv 0)", "L0H1 (kv 0)", "L0H2 (kv 1)", "L0H3 (kv 1)"} <= {
        " ".join(line.split()[:3]) for line in lines
    }


def test_the_command_makes_the_same_again(attnviz: Attnviz, tmp_path: Path) -> None:
    file = tmp_path / "told.json"
    attnviz("inspect", "old dogs", "--model", "agreement", "--layer", "1", "--hide-first",
            "-o", str(file))  # fmt: skip
    line = json.loads(file.read_text())["attnviz"]["command"]

    assert "--model agreement" in line
    assert "--layer 1" in line
    assert "--hide-first" in line


def test_the_library_knows_the_command_as_well(minilm: Inspection) -> None:
    command = (
        inspect_trace(minilm.trace, source="it", to="animal", hide_special=True).view().command
    )

    assert command is not None
    assert command.line.endswith("--model minilm --from it --to animal --hide-special")


def test_what_is_weighed_is_said_to_be() -> None:
    view = inspect_trace(small_trace(), source="done", to="now", weigh="norm").view()

    assert "a weight × length of" in view.closing[0]
    assert "weight × length = length of the vector" in view.picture.caption


def test_what_it_is_computed_in_and_on_can_be_chosen(attnviz: Attnviz, tmp_path: Path) -> None:
    path = tmp_path / "head.json"
    result = attnviz(
        "inspect", "the dogs slept", "--model", "toy", "--dtype", "float64", "-o", str(path)
    )

    assert result.status == 0
    assert '"dtype":"float64"' in path.read_text().replace(" ", "")
    assert "has no option --dim" in attnviz("inspect", "one", "--dim", "4").err


def test_where_heads_read_as_much_none_is_named_for_it() -> None:
    view = inspect("dogs", model="toy", query="dogs").view()
    bars = next(each for each in view.screen.panels if isinstance(each, RankedBars))

    assert bars.remarks == ("as much in all: 1.0",)
