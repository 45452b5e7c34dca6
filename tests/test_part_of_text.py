"""A part of a text (--window 3:5,1:4) has the weights of the whole, true numbers and true words."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from attnviz import Trace, trace
from attnviz.machine import memory
from attnviz.tokens.text_part import parse_part
from attnviz.traces.matrices import Matrices
from attnviz.views import long_text
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.long_map import LongMap
from attnviz.wording.commands import parse_command
from tests.browser import page_in_browser
from tests.conftest import Attnviz
from tests.refusals import assert_refused, refusal_of
from tests.test_long_texts import LargestTensor
from tests.test_long_views import NEEDLE, needle_trace

if TYPE_CHECKING:
    from playwright.sync_api import Browser

STORY = Path("sample_texts/story.txt")
SENTENCE = "I am learning this because it is good"
TEXT = STORY.read_text(encoding="utf-8")[:900]


def numbers_of(text_trace: Trace, part: str, **choices: Any) -> dict[str, Any]:
    """The numbers of a part by the name of its layer."""
    parts: dict[str, Any] = text_trace.view(part=part, **choices).to_dict()["parts"]
    return parts


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"variant": "causal"},
        {"variant": "multi-head", "window": 5},
        {"variant": "causal", "layers": 2, "heads": 2, "kv_heads": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_part_has_the_weights_of_the_whole(settings: dict[str, Any], stream: bool) -> None:
    with_matrices = trace(TEXT, **settings)
    text_trace = trace(TEXT, stream=stream, **settings)

    for name, part in numbers_of(text_trace, "31:60,25:50").items():
        weights = with_matrices[name].weights.whole()
        assert (part["first_query"], part["first_key"]) == (31, 25)
        assert part["queries"] == list(with_matrices.tokens.labels[30:60])
        assert part["keys"] == list(with_matrices.tokens.labels[24:50])
        for head in part["heads"]:
            rows = weights[head["head"], 30:60]
            assert np.allclose(head["weights"], rows[:, 24:50], atol=1e-6)
            assert np.allclose(head["weight_on_shown_keys"], rows[:, 24:50].sum(1), atol=1e-6)
            assert np.allclose(head["weight_on_all_keys"], rows.sum(1), atol=1e-6)
            assert np.array_equal(head["visible"], with_matrices[name].visible[30:60, 24:50])


@given(data=some.data())
def test_ends_count_from_1_and_both_are_in_the_part(data: some.DataObject) -> None:
    count = data.draw(some.integers(1, 10**6))
    first = data.draw(some.integers(1, count))
    last = data.draw(some.integers(first, count))

    parts = [parse_part(f"{first}:{last}"), parse_part(f"{first}:"), parse_part(f":{last}")]

    assert parts[0].queries(count) == range(first - 1, last)
    assert parts[1].queries(count) == range(first - 1, count)
    assert parts[2].queries(count) == parse_part(f"0:{last}").queries(count) == range(last)
    assert parse_part(f":,{first}").keys(count) == range(first - 1, first)


@pytest.mark.parametrize(
    ("arguments", "problem", "hint"),
    [
        (
            ["--window", "3:40"],
            "--window 3:40 reaches beyond the text, which has 8 tokens",
            "try --window 3:8",
        ),
        (
            ["--window", "20:40"],
            "--window 20:40 reaches beyond the text, which has 8 tokens",
            "try --window 1:8",
        ),
        (
            ["--window", "3:4,5:9"],
            "--window 3:4,5:9 reaches beyond the text, which has 8 tokens",
            "try --window 3:4,5:8",
        ),
        (
            ["--window", "3:4,1:3", "--memory", "so was"],
            "--window 3:4,1:3 reaches beyond the second text, which has 2 tokens",
            "try --window 3:4,1:2",
        ),
        (
            ["--window", "5:3"],
            "--window 5:3 holds no tokens: it ends at 3, before 5",
            "try --window 3:5",
        ),
        (
            ["--window=0:0"],
            "--window 0:0 holds no tokens: tokens count from 1",
            "try --window 1:1",
        ),
        (
            ["--window", "3:4:5"],
            "'3:4:5' names no part of a text, as 1200:1300 (queries) and 1200:1300,1:400 "
            "(queries, keys) do",
            "try --window 1200:1300",
        ),
        (
            ["--window", "3:4", "--query", "is"],
            "'is' is token 7, and only tokens 3–4 are shown as queries",
            "try --query 3",
        ),
        (
            ["--window", "3:4", "--show", "keys"],
            "--window 3:4 shows a part of the weights, and --show keys asks for something else",
            "leave --show out, or --window 3:4",
        ),
        (
            ["--window", "3:4", "--as", "arcs", "-o", "a.png"],
            "--window 3:4 shows a part of the weights, and --as arcs draws whole texts",
            "leave --as out, or --window 3:4",
        ),
        (
            ["--window", "3:4", "--predict"],
            "--window 3:4 shows a part of the weights, and --predict shows answers",
            "leave --predict out, or --window 3:4",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_parts_that_cannot_be_shown_are_refused(
    attnviz: Attnviz, arguments: list[str], problem: str, hint: str
) -> None:
    assert_refused(attnviz("run", SENTENCE, *arguments), problem, hint)


def test_commands_that_show_whole_texts_refuse_a_part(attnviz: Attnviz) -> None:
    result = attnviz("steps", SENTENCE, "--window", "3:4")

    assert result.err == (
        "error: --window 3:4 shows a part of a text, and attnviz steps shows whole ones\n"
        " hint: attnviz run TEXT --window 3:4 shows it; the width of a mask is one number: "
        "--window 2\n"
    )


def test_python_names_the_keyword_of_a_part() -> None:
    assert refusal_of(lambda: trace(SENTENCE).view(part="3:40,1:2")) == (
        'part="3:40,1:2" reaches beyond the text, which has 8 tokens',
        'try part="3:8"',
    )


def test_a_width_and_a_part_are_two_settings_of_one_option(
    attnviz: Attnviz, tmp_path: Path
) -> None:
    path = tmp_path / "a.json"
    result = attnviz(
        *("run", SENTENCE, "--causal", "--window", "2", "--window", "4:5", "-o", str(path))
    )
    assert result.status == 0, result.err
    document = json.loads(path.read_text(encoding="utf-8"))
    command = document["attnviz"]["command"]
    part = document["parts"]["L0"]

    assert command == f"attnviz run '{SENTENCE}' --causal --window 2 --window 4:5 --out a.json"
    assert parse_command(command) is not None
    assert (part["first_query"], part["first_key"]) == (4, 3)  # the window hides those before
    assert part["keys"] == ["learning", "this", "because"]


def test_a_saved_trace_has_parts(attnviz: Attnviz, tmp_path: Path) -> None:
    archive, csv_path = tmp_path / "a.npz", tmp_path / "b.csv"
    attnviz("run", SENTENCE, "-o", str(archive))

    result = attnviz("run", "--trace", str(archive), "--window", "2:3,5:5", "-o", str(csv_path))

    assert result.status == 0, result.err
    lines = [*csv.DictReader(csv_path.read_text(encoding="utf-8").splitlines())]
    assert [(line["query number"], line["key number"], line["key"]) for line in lines] == [
        ("2", "5", "because"), ("3", "5", "because"),
    ]  # fmt: skip


def test_every_kind_of_file_has_the_same_part(tmp_path: Path) -> None:
    text_trace = trace(TEXT, causal=True, stream=True)
    names = ("a.json", "a.npz", "a.csv", "a.svg", "a.html", "a.md")
    paths = [tmp_path / name for name in names]
    text_trace.view(part="101:110,91:110").save(*paths)
    weights = text_trace[0, 0][100:110, 90:110]

    head = json.loads(paths[0].read_text(encoding="utf-8"))["parts"]["L0"]["heads"][0]
    archive = np.load(paths[1])
    lines = [*csv.DictReader(paths[2].read_text(encoding="utf-8").splitlines())]
    assert np.allclose(head["weights"], weights)
    assert np.allclose(archive["parts.L0.heads.0.weights"], weights)
    assert np.allclose([float(line["weight"]) for line in lines], weights.flatten())
    assert [int(line["query number"]) for line in lines[::20]] == [*range(101, 111)]
    assert [int(line["key number"]) for line in lines[:20]] == [*range(91, 111)]
    assert all(path.stat().st_size for path in paths)


def test_labels_have_true_numbers_and_a_sign_where_a_paragraph_begins() -> None:
    text_trace = trace("one two\n\nthree four\n\nfive six", causal=True)

    [grid] = text_trace.view(part="3:").grids()

    assert grid.rows.names[2:4] == ("5 ¶ three", "6 four")
    assert grid.columns.numbers == tuple(str(number) for number in range(1, 11))
    assert "¶ = a paragraph begins" in grid.note


def test_the_note_says_which_share_of_the_attention_lies_in_the_part() -> None:
    text_trace = trace(SENTENCE, heads=2)
    weights = text_trace.weights[0, :, 1:4]
    shares = [f"{100 * float(head[:, :2].sum() / 3):.0f}\xa0%" for head in weights]

    view = text_trace.view(part="2:4,1:2")
    query = text_trace.view(part="2:4,1:2", query="am")

    low, high = sorted((share, head) for head, share in enumerate(shares))
    assert (
        f"{low[0]} (head {low[1]}) to {high[0]} (head {high[1]}) of the attention of tokens 2–4 "
        "goes to tokens 1–2; the softmax runs over all keys"
    ) in view.grids()[0].note
    assert "goes to tokens 1–2; the softmax runs over all keys" in query.notes[0]
    assert "each row sums to 1" in text_trace.view(part="2:4").grids()[0].note


@pytest.mark.parametrize(
    ("text", "settings", "part", "title"),
    [
        (
            SENTENCE,
            {"causal": True},
            "2:4,5:6",
            "Tokens 2–4 cannot attend to tokens 5–6: every key shown is masked",
        ),
        (
            SENTENCE,
            {"variant": "average"},
            "5:6",
            "The largest weight of tokens 5–6 is 20.0\xa0%, for 5 pairs of tokens, "
            '"because" (token 5) to "I" (token 1) (as with an even spread) among them',
        ),
        (
            "I",
            {},
            "1:1",
            'The largest weight of token 1 is 100.0\xa0%: "I" (token 1) to itself, as with an even '
            "spread",
        ),
        (
            SENTENCE,
            {"window": 1},
            "2:3",
            "The largest weight of tokens 2–3 is 100.0\xa0%, for 2 pairs of tokens, "
            '"am" (token 2) to itself (as with an even spread) among them',
        ),
        (
            SENTENCE,
            {"causal": True},
            "1:2,2:2",
            '"am" (token 2) receives 48\xa0% of the attention of tokens 1–2, 1.9 times an even '
            "spread",
        ),
    ],
    ids=["hidden", "even", "one token", "only itself", "one key"],
)
@pytest.mark.parametrize("stream", [False, True])
def test_titles_of_parts_are_true(
    text: str, settings: dict[str, Any], part: str, title: str, stream: bool
) -> None:
    assert trace(text, stream=stream, **settings).view(part=part).headline == title


def test_the_largest_weight_leaves_out_tokens_that_see_a_single_key() -> None:
    queries, keys = torch.zeros(1, 12, 2), torch.zeros(1, 12, 2)
    queries[0, 6, 0], keys[0, 3, 0] = 1.0, 1.0
    text_trace = trace(
        " ".join(f"w{number}" for number in range(12)),
        tokenizer="spaces",
        causal=True,
        given=Matrices(queries=queries, keys=keys, values=torch.ones(1, 12, 2)),
    )

    assert text_trace.view(part="1:12,2:12").headline.startswith(
        "The largest weight of tokens 1–12 on tokens 2–12 is 50.0"
    )
    assert text_trace.view(part="1:12,1:12").headline == (  # the first token receives its share
        "Where more than one key is visible, the largest weight of tokens 1–12 is 50.0\xa0%, for 2 "
        'pairs of tokens, "w1" (token 2) to "w0" (token 1) (as with an even spread) among them'
    )


def test_a_needle_is_the_title_of_a_part_that_attends_to_it() -> None:
    view = needle_trace().view(part="501:560")

    assert view.headline.startswith('"w420" (token 421) receives')
    assert re.search("of the attention of tokens 501–560, [0-9]+ times an even", view.headline)


def test_a_query_of_a_part_is_found_in_it_first_and_has_its_keys_alone() -> None:
    text_trace = trace("it is it was it", variant="average", causal=False)

    view = text_trace.view(part="2:4,1:2", query="it")

    assert view.headline == (
        '"it" (token 3) attends most to 2 tokens of tokens 1–2, equally: 20.0\xa0% each, as '
        "with an even spread"
    )
    assert view.command is not None
    assert view.command.line == (
        "attnviz run 'it is it was it' --variant average --no-causal --window 2:4,1:2 --query 3"
    )


def test_a_part_has_the_keys_of_a_second_text() -> None:
    text_trace = trace(SENTENCE, memory="nine ten eleven")
    parts = numbers_of(text_trace, "2:4,3:3")

    assert parts["L0"]["keys"] == ["learning"]
    assert (
        parts["L0 cross"]["keys"] == [text_trace.memory.labels[2]] if text_trace.memory else False
    )
    cross = text_trace.layers[0].cross
    assert cross is not None
    assert np.allclose(
        parts["L0 cross"]["heads"][0]["weights"], cross.weights.head(0)[1:4, 2:3], atol=1e-6
    )


def test_a_head_that_is_off_is_never_the_finding() -> None:
    text_trace = trace(SENTENCE, heads=2, without="L0H1")
    view = text_trace.view(part="2:3")

    assert "head 0" in view.headline.lower()
    assert [grid.is_all_off for grid in view.grids()] == [False, True]
    assert view.notes[-1].startswith("head 1 is switched off")


def test_queries_without_keys_are_counted() -> None:
    visible = torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 1]]).bool()
    masked_matrices = Matrices(embeddings=torch.eye(3), visible=visible)
    view = trace("a b c", tokenizer="spaces", given=masked_matrices).view(part="1:2")

    assert view.notes == ("1 query attends to nothing: every key is masked",)
    assert "each row sums to 1" not in view.grids()[0].note


@pytest.mark.parametrize("pool", ["mean", "max"])
def test_a_part_above_the_budget_is_a_map_of_blocks(pool: str) -> None:
    settings: dict[str, Any] = {"causal": True, "stream": True, "resolution": 8, "pool": pool}
    text = "a b c d e f g h i " * 20
    exact_weights = trace(text, tokenizer="spaces", causal=True)[0, 0].numpy()[40:140, :100]
    text_trace = trace(text, tokenizer="spaces", memory_budget="150KB", **settings)

    grid, _ = text_trace.view(part="41:140,1:100").grids()

    blocks = [exact_weights[row : row + 13, column : column + 13]
              for row in range(0, 100, 13) for column in range(0, 100, 13)]  # fmt: skip
    expected = [block.max() if pool == "max" else block.sum() / len(block) for block in blocks]
    assert np.allclose(grid.values.flatten(), expected, atol=1e-6)
    assert grid.rows.numbers[0] == "41–53"
    assert grid.columns.numbers[-1] == "92–100"
    assert grid.pool_note.startswith("one cell = 13 × 13 tokens: ")


def test_pictures_label_small_parts_and_count_the_tokens_of_large_ones() -> None:
    text_trace = trace(TEXT, causal=True, stream=True)

    [small_part] = text_trace.view(part="50:60,40:60").picture.panels
    [large_part] = text_trace.view(part="50:150").picture.panels

    assert isinstance(small_part, Grid)
    assert small_part.rows.labels == text_trace.tokens.labels[49:60]
    assert isinstance(large_part, LongMap)
    assert (large_part.row_tokens, large_part.column_tokens) == (range(49, 150), range(150))
    assert [len(profile.values) for profile in large_part.profiles] == [101, 101, 101]


def test_small_weights_of_a_few_keys_have_colours_and_digits() -> None:
    [grid] = trace(TEXT, causal=True).view(part="101:104,1:4").grids()
    exact_weights = trace(TEXT, causal=True)[0, 0].numpy()[100:104, :4]

    assert exact_weights.max() < grid.scale.high * 2 < 0.2
    assert grid.decimals is not None
    assert (
        np.abs(exact_weights - exact_weights.round(grid.decimals)).max() < exact_weights.max() / 5
    )


def test_only_the_rows_of_a_part_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    text_trace = trace("a b c d e f g h i " * 60, tokenizer="spaces", causal=True, stream=True)
    with LargestTensor() as largest:  # type: ignore[no-untyped-call]
        view = text_trace.view(part="301:310,1:300")
        view.render(".json")
        view.render(".txt")

    assert 10 * 300 <= largest.floats <= 10 * 540


def test_all_weights_are_data_where_they_are_asked_for_and_fit(
    attnviz: Attnviz, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text_trace = trace(SENTENCE, stream=True)
    lines = [*csv.DictReader(io.StringIO(text_trace.to_csv()))]
    assert np.allclose([float(each["weight"]) for each in lines], text_trace[0, 0].flatten())
    assert text_trace.view().render(".csv").count(b"\n") == 1 + 8

    monkeypatch.setattr(memory, "DEFAULT_BUDGET", 4 * 8**2 - 1)
    result = attnviz("run", SENTENCE, "--show", "weights", "-o", str(tmp_path / "a.csv"))

    assert result.err == (
        "error: the weights for 8 × 8 tokens are 64 numbers: about 2.9 KB as .csv, 0.3 KB as .npz\n"
        " hint: write a part of them: --window 1200:1300, or --window 1200:1300,1:400 for queries "
        "and keys\n"
    )


def test_a_budget_without_room_for_one_tile_is_refused() -> None:
    assert refusal_of(
        lambda: trace("a b c d " * 100, tokenizer="spaces", memory_budget="10KB")
    ) == (
        "memory_budget is 10KB, and one tile of 400 × 384 weights takes 615 KB",
        'try memory_budget="615KB", or more',
    )


def test_a_row_of_a_map_has_the_exact_row_of_its_most_decided_query() -> None:
    map_trace = needle_trace(resolution=60)
    weights = map_trace.weights[0, 0]
    view = map_trace.view()

    for row in (0, 13, 45, 59):
        title, (section,) = view.steps_of_query(row)
        span = range(10 * row, 10 * row + 10)
        largest = [float(weights[query].max()) if query else 0.0 for query in span]
        query = span[int(np.argmax(largest))]
        assert f"(token {query + 1}) attends most to" in title
        assert section.title == f'What "w{query}" (token {query + 1}) attends to'
        assert section.ranking is not None
        order = np.argsort(-weights[query].numpy(), kind="stable")[: len(section.ranking.remarks)]
        assert section.ranking.grid.rows.labels == tuple(f"w{key}" for key in order)
    assert "apart from those with 100" in view.steps_of_query(0)[1][0].about
    assert f"w{NEEDLE}" in view.steps_of_query(59)[0]


def test_a_followed_query_is_the_exact_row_that_a_page_opens_with() -> None:
    view = needle_trace(resolution=60).view(query=457)

    assert view.heads is not None
    assert view.heads.query == 45
    title, (section,) = view.steps_of_query(45)
    assert title == view.headline
    assert section.title == 'What "w457" (token 458) attends to'


def test_many_heads_have_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_text, "MAX_LISTED_KEYS", 100)
    view = trace("a b c d e f g h " * 5, heads=2, stream=True).view()
    steps = {view.steps_of_query(row)[1][0].title for row in range(40)}

    assert len(steps) <= 5
    assert len(view.steps_of_query(0)[1]) == 2


@pytest.mark.parametrize("last", [540, 539])  # a last block of one token is one, too
def test_a_page_of_a_part_with_too_many_cells_has_blocks_and_exact_rows(
    last: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    map_trace = needle_trace()
    assert map_trace.view(part=f"501:{last}").query_steps is None
    monkeypatch.setattr(long_text, "MAX_EXPLORED_CELLS", 100)
    monkeypatch.setattr(long_text, "MAX_DRAWN", 20)

    view = map_trace.view(part=f"501:{last}")

    assert view.heads is not None
    assert view.heads.heads[0].query_axis.labels[:2] == ("501–502", "503–504")
    assert view.heads.heads[0].query_axis.labels[-1] == ("539–540" if last == 540 else "539")
    assert view.steps_of_query(0)[0].startswith(('"w500"', '"w501"'))


def test_visible_is_what_the_mask_allows_also_where_given_weights_are_on_hidden_keys() -> None:
    mask = torch.tensor([[1, 0], [1, 1]]).bool()
    matrices = Matrices(weights=torch.full((1, 2, 2), 0.5), visible=mask)
    text_trace = trace("a b", tokenizer="spaces", given=matrices)
    whole, part = text_trace.view(show=["weights"]), text_trace.view(part=":")

    for view in (whole, part):
        lines = csv.DictReader(io.StringIO(view.render(".csv").decode()))
        assert [line["visible"] for line in lines] == ["true", "false", "true", "true"]
    [head] = numbers_of(text_trace, ":")["L0"]["heads"]
    assert np.array_equal(head["visible"], mask)


def test_a_click_on_a_row_of_the_map_shows_an_exact_row(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    needle_trace(resolution=60).view().save(path)
    with page_in_browser(chromium, path) as page:
        page.get_by_label("Follow").fill("46")
        page.keyboard.press("Enter")
        row = page.locator(".walk h2")
        row.get_by_text("(token 4").wait_for()

        assert '"w420"' in page.locator("h1").inner_text()
        assert "421 w420" in page.locator(".walk .ranking th").first.inner_text()
