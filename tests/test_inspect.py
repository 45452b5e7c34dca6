"""`attnviz inspect`: what it says and shows, on a terminal and in files; each claim is true."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from attnviz.analysis.inspection.inspection import Inspection, inspect
from attnviz.errors import AttnvizError
from attnviz.renderers.terminal.lines import printed
from attnviz.renderers.terminal.screen import Screen
from attnviz.views.grids.arcs import Arcs, Sentence
from attnviz.views.grids.ranked import Ranked
from attnviz.views.view import View
from attnviz.wording.commands import command_in
from tests.conftest import Attnviz
from tests.test_looking import looked, made, weights

SENTENCE = "The animal didn't cross the street because it was too tired"
SMALL = Screen(80, 24)


@pytest.fixture(scope="module")
def minilm() -> Inspection:
    return inspect(SENTENCE)


def eager(minilm: Inspection) -> np.ndarray:
    """What the model itself returns: [layer head query key]."""
    import torch

    from attnviz.traces.settings import Settings
    from attnviz.traces.trained.loading import loaded

    model = loaded(Settings(model="minilm")).model
    ids = torch.tensor([minilm.trace.tokens.ids])
    with torch.no_grad():
        found = model(input_ids=ids, output_attentions=True).attentions
    return np.stack([each[0].numpy() for each in found])


def shown(view: View, screen: Screen = SMALL) -> list[str]:
    return [line.plain.rstrip() for line in printed(view, screen)]


def test_the_head_that_links_it_to_animal_is_named(minilm: Inspection, attnviz: Attnviz) -> None:
    theirs = eager(minilm)[:, :, 10, 2]
    layer, head = np.unravel_index(theirs.argmax(), theirs.shape)
    done = attnviz("inspect", SENTENCE, "--from", "it", "--to", "animal")
    closing = " ".join(done.out.split())

    assert done.status == 0
    assert minilm.trace.tokens.labels[10] == "it"
    best = f"{theirs.max():.2f}"[1:]
    assert (
        f'L{layer}H{head} reads "animal" (3) from "it" (11) with {best}, the most of 72' in closing
    )
    assert f"the mean is {theirs.mean():.2f}".replace("0.", ".") in closing


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"source": "it", "to": "animal"},
        {"query": "it"},
        {"query": "it", "hide_special": True, "words": True},
        {"merge": "rollout", "words": True, "hide_special": True},
        {"layer": 4, "head": 7},
    ],
)
def test_what_matters_fits_a_small_terminal(minilm: Inspection, wanted: dict[str, Any]) -> None:
    view = looked(minilm.trace, **wanted).view()
    lines = shown(view)
    heading = lines.index("") + 1

    assert len(lines) - heading <= SMALL.rows
    assert max(map(len, lines)) <= 80


def test_one_head_is_drawn_as_lines_and_all_are_refused_with_the_command_of_one(
    minilm: Inspection,
) -> None:
    one = minilm.trace.view(layer=5, head=11, as_="arcs")
    [drawn] = one.picture.panels
    weights = minilm.trace.layers[5].attended.weights[11].numpy()
    with pytest.raises(AttnvizError, match="the lines of 72 heads leave room for only") as refused:
        minilm.trace.view(as_="arcs").render(".svg", size=(13.333, 7.5))
    in_hint = refused.value.hint.partition("draw one head: ")[2].partition(" -o head.png; or ")[0]
    line = command_in(in_hint)

    assert isinstance(drawn, Arcs)
    assert np.array_equal(drawn.grid.values, weights)
    assert line is not None
    assert line.argument == SENTENCE
    assert {"layer": ["5"], "head": ["11"], "as_": ["arcs"]}.items() <= line.options.items()


def test_lines_of_a_head_need_a_picture(attnviz: Attnviz) -> None:
    done = attnviz("inspect", SENTENCE, "--layer", "5", "--head", "11", "--as", "arcs")

    assert done.status == 2
    assert "--as arcs draws lines, and no picture is asked for" in done.err


def test_no_seed_is_said_of_a_model_that_was_trained(minilm: Inspection) -> None:
    view = minilm.view()

    assert view.settings == (
        "15 tokens (minilm's) · bert, 22.7 million parameters · 6 layers × 12 heads of width 32 · "
        "all tokens visible · cpu float32"
    )
    assert view.title == "attention of the model minilm"
    assert not view.screen.caveat


def test_special_tokens_are_said_to_be_read_most_where_they_are(minilm: Inspection) -> None:
    rows = eager(minilm)[:, :, 10].reshape(72, -1)
    most = int(np.isin(rows.argmax(-1), (0, 14)).sum())

    told = looked(minilm.trace, query="it").view().closing

    assert told[0].startswith(f'{most} of 72 heads read "[CLS]" (1) or "[SEP]" (15) most')
    assert most > 36
    assert not any("heads read" in each for each in looked(made(), query="done").view().closing)


def test_how_much_is_left_out_is_said_of_the_token_that_is_asked_for_or_of_all(
    minilm: Inspection,
) -> None:
    shares = eager(minilm)[..., [0, 14]].sum(-1)
    asked = {
        "of what is read": shares[:, :, 1:-1].mean(-1),
        'of what "it" (11) reads': shares[:, :, 10],
    }
    for (what, taken), query in zip(asked.items(), (None, "it"), strict=True):
        layer, head = np.unravel_index(taken.argmax(), taken.shape)
        mean, most = (f"{number:.2f}"[1:] for number in (taken.mean(), taken.max()))
        told = looked(minilm.trace, query=query, hide_special=True).view().closing[-1]
        assert told == (
            f'Left out are "[CLS]" (1) and "[SEP]" (15), which take {mean} {what} in the mean '
            f"of 72 heads, most in L{layer}H{head}: {most}; the rest is as it was."
        )


def test_what_is_left_out_is_counted_by_the_numbers_that_are_shown(minilm: Inspection) -> None:
    way = looked(minilm.trace, merge="rollout").maps[0].cells.row(10).values[0]
    rolled = looked(minilm.trace, merge="rollout", query="it", hide_special=True).view().closing[-1]
    assert f"{way[0] + way[14]:.2f}"[1:] + ' of what "it" (11) reads in the rollout' in rolled
    heads = [each.cells.row(10).values[0] for each in looked(minilm.trace, weigh="norm").maps]
    mean = np.mean([(row[0] + row[14]) / row.sum() for row in heads])
    weighed = looked(minilm.trace, weigh="norm", query="it", hide_special=True).view().closing
    start = f"{mean:.2f}"[1:] + ' of what "it" (11) reads by weight × length'
    assert any(start in told for told in weighed)


LINK = re.compile(
    r'(L\dH\d(?: and L\dH\d)*) reads? "(.*)" \((\d+)\) from "(.*)" \((\d+)\) with (\S+), the most '
    r"of 6 heads(?:; (L\dH\d) follows(?:, almost as much,)? with (\S+))?; the mean is (\S+)\."
)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("variant", ["scaled", "causal", "average"])
def test_what_is_said_of_a_link_is_so(variant: str, seed: int) -> None:
    found = made("a cat sat on a mat", variant=variant, seed=seed)
    told = " ".join(looked(found, source="mat", to="cat").view().closing)
    match = LINK.match(told)
    read = weights(found)[:, :, 5, 1].ravel()
    best = [f"L{place // 3}H{place % 3}" for place in np.flatnonzero(read == read.max())]

    if len(best) > 4:
        assert told.startswith("6 heads read")
        return
    assert match, told
    heads, *_, much, following, next_much, mean = match.groups()
    assert heads.split(" and ") == best
    assert [much, mean] == [f"{number:.2f}"[1:] for number in (read.max(), read.mean())]
    if following:
        rest = sorted(read.tolist(), reverse=True)[len(best)]
        assert next_much == f"{rest:.2f}"[1:]
    even = 1 / 6
    assert ("no head links them" in told.lower()) == bool(read.max() <= even)


def test_only_a_map_that_is_alone_has_a_list_of_what_it_reads() -> None:
    alone, *more = looked(made(), query="done", layer=1, head=2).view().screen.panels
    assert isinstance(alone, Sentence)
    assert alone.listed
    assert not more

    read, tokens, heads = looked(made(), query="done").view().screen.panels
    assert isinstance(read, Sentence)
    assert not read.listed
    assert isinstance(tokens, Ranked)
    assert isinstance(heads, Ranked)
    assert heads.grid.rows.labels[0] in heads.grid.rows.names
    assert [len(each.remarks) for each in (tokens, heads)] == [len(read.grid.columns), 6]


def test_bars_are_as_long_as_their_numbers() -> None:
    lines = shown(looked(made(variant="causal"), source="done", to="now").view())
    bars = [re.match(r"L\dH\d \.(\d\d) ([█▏▎▍▌▋▊▉]*)", line) for line in lines]
    pairs = [(int(bar[1]), len(bar[2])) for bar in bars if bar]

    assert len(pairs) >= 5
    assert pairs == sorted(pairs, reverse=True)
    longest, full = pairs[0][1], pairs[0][0]
    assert all(abs(length - number / full * longest) <= 1.5 for number, length in pairs)


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".md", ".txt", ".json", ".csv", ".npz"])
def test_every_kind_of_file_has_a_ranking(suffix: str) -> None:
    wanted = {"query": "done"} if suffix in (".svg", ".md") else {"source": "done", "to": "now"}
    made_of_it = looked(made(), **wanted).view().render(suffix)

    assert len(made_of_it) > 100
    if suffix in (".svg", ".md", ".txt"):
        text = made_of_it.decode()
        assert "L0H0" in text
        assert "done" in text


def test_a_line_of_data_for_each_head_that_is_ranked() -> None:
    found = made()
    rows = list(csv.DictReader(io.StringIO(csv_of(found, source="done", to="now"))))
    read = weights(found)[:, :, -1, 3]

    assert [float(row["weight"]) for row in rows] == sorted(read.ravel().tolist(), reverse=True)
    for row in rows:
        layer, head = map(int, re.findall(r"\d", row["head"]))
        assert float(row["weight"]) == pytest.approx(read[layer, head])
        whole = weights(found)[layer, head, -1]
        assert float(row["rank in its row"]) == 1 + (whole > read[layer, head]).sum()
        assert row["most read"].startswith(f"{whole.argmax() + 1} ")


def test_a_line_of_data_for_each_weight_that_is_looked_at() -> None:
    found = made()
    rows = list(csv.DictReader(io.StringIO(csv_of(found, layer=1, head=0, hide_first=True))))

    assert len(rows) == (len(found.tokens) - 1) ** 2
    assert (rows[0]["head"], rows[0]["query number"], rows[0]["key number"]) == ("L1H0", "2", "2")
    assert_allclose(
        [float(row["weight"]) for row in rows], weights(found)[1, 0, 1:, 1:].ravel(), atol=1e-7
    )


def csv_of(found: Any, **wanted: Any) -> str:
    return looked(found, **wanted).view().render(".csv").decode()


def test_data_hold_the_trace_and_what_was_looked_at(attnviz: Attnviz, tmp_path: Path) -> None:
    file = tmp_path / "looked.json"
    looked(made(), words=True, merge="mean").view().save(file)
    kept = json.loads(file.read_text())

    assert kept["inspection"]["looking"] == {"merge": "mean", "words": True}
    (mean,) = kept["inspection"]["maps"]
    assert_allclose(np.sum(mean["weights"], axis=-1), 1, atol=1e-6)
    again = attnviz("inspect", "--trace", str(file), "--from", "done", "--to", "now")
    assert again.status == 0
    assert "the most of 6 heads" in again.out


def test_colours_by_the_logarithm_change_no_number() -> None:
    plain, log = (looked(made(), merge="mean", log=each).view() for each in (False, True))
    one, other = plain.screen.panels[0], log.screen.panels[0]

    assert (one.scale.bend, other.scale.bend) == ("straight", "log")  # type: ignore[union-attr]
    assert other.scale.low == pytest.approx(1e-3)  # type: ignore[union-attr]
    assert plain.render(".txt") == log.render(".txt")
    assert shown(plain, Screen(80, 24, numbers=True)) == shown(log, Screen(80, 24, numbers=True))


def test_formulas_stand_in_captions() -> None:
    for merge, formula in (
        ("mean", "over how many"),
        ("max", "the largest"),
        ("rollout", "½ mean"),
    ):
        assert formula in looked(made(), merge=merge).view().picture.caption


def test_query_heads_say_whose_keys_they_share() -> None:
    found = made(heads=4, kv_heads=2)
    told = shown(looked(found, source="done", to="now").view(), Screen(80))

    assert {"L0H0 (kv 0)", "L0H1 (kv 0)", "L0H2 (kv 1)", "L0H3 (kv 1)"} <= {
        " ".join(line.split()[:3]) for line in told
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
    command = looked(minilm.trace, source="it", to="animal", hide_special=True).view().command

    assert command is not None
    assert command.line.endswith("--model minilm --from it --to animal --hide-special")


def test_what_is_weighed_is_said_to_be() -> None:
    view = looked(made(), source="done", to="now", weigh="norm").view()

    assert "with a weight × length of" in view.closing[0]
    assert "weight × length = how long" in view.picture.caption


def test_what_it_is_computed_in_and_on_can_be_chosen(attnviz: Attnviz, tmp_path: Path) -> None:
    path = tmp_path / "head.json"
    done = attnviz(
        "inspect", "the dogs slept", "--model", "toy", "--dtype", "float64", "-o", str(path)
    )

    assert done.status == 0
    assert '"dtype":"float64"' in path.read_text().replace(" ", "")
    assert "has no option --dim" in attnviz("inspect", "one", "--dim", "4").err


def test_where_heads_read_as_much_none_is_named_for_it() -> None:
    alone = inspect("dogs", model="toy", query="dogs").view()
    alike = next(each for each in alone.screen.panels if isinstance(each, Ranked))

    assert alike.remarks == ("as much in all: 1.0",)
