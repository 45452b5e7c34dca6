"""Numbers of a page: what is read back is what was packed, as nearly as the page says."""

from __future__ import annotations

import base64
import math
import tracemalloc
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from hypothesis.extra import numpy as arrays

from attnviz import cells
from attnviz.cells import StoredCells
from attnviz.renderers.page import head_tables, packing
from attnviz.renderers.page import head_tables as page_heads
from attnviz.renderers.page.head_tables import pack_heads
from attnviz.renderers.page.packing import PackedTable, bits_per_number, pack_table, thumbnail_cells
from attnviz.views.grids.axes import plain_axis
from attnviz.views.grids.explorer import HeadExplorer, HeadMap, arrange_heads

BITS = (6, 7, 8, 16)
FLOATS = some.floats(-1e6, 1e6, width=32)


def numbers_of(about: dict[str, Any], block: bytes, seen: bytes) -> np.ndarray:
    """What a page reads, by the format: reach of each row, sums of each row, a code for a cell."""
    rows, columns = about["rows"], about["columns"]
    raw = zlib.decompress(block)
    bits = np.unpackbits(np.frombuffer(seen, np.uint8), bitorder="little")[: rows * columns]
    mask = bits.astype(bool) if seen else np.ones(rows * columns, dtype=bool)
    numbers = np.full(rows * columns, np.nan)
    if about["bits"] >= 32:
        numbers[mask] = np.frombuffer(raw, f"<f{about['bits'] // 8}")
        return numbers.reshape(rows, columns)
    reach = np.frombuffer(raw, "<f4", rows)
    kind = ("<i" if about["signed"] else "<u") + ("1" if about["bits"] <= 8 else "2")
    codes = np.frombuffer(raw[(4 if about["slack"] is None else 8) * rows :], kind).astype(float)
    most = 2 ** (about["bits"] - about["signed"]) - 1
    shares = codes / most
    numbers[mask] = np.sign(shares) * shares**2 * np.repeat(reach, columns)[mask]
    return numbers.reshape(rows, columns)


def read(table: PackedTable) -> np.ndarray:
    return numbers_of(table.about, table.block, table.mask_bits)


def sums_in(table: PackedTable) -> np.ndarray:
    rows = table.shape[0]
    sums: np.ndarray = np.frombuffer(zlib.decompress(table.block), "<f4", rows, 4 * rows)
    return sums


@some.composite
def patches(draw: some.DrawFn, elements: some.SearchStrategy[float] = FLOATS) -> StoredCells:
    shape = draw(some.tuples(some.integers(1, 9), some.integers(1, 12)))
    values = draw(arrays.arrays(np.float32, shape, elements=elements))
    return StoredCells(values, draw(arrays.arrays(bool, shape)))


def softmax(scores: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    kept = np.where(hidden, -np.inf, scores)
    with np.errstate(invalid="ignore"):
        powers = np.where(hidden, 0, np.exp(kept - kept.max(axis=1, keepdims=True)))
    shares: np.ndarray = powers / np.maximum(powers.sum(axis=1, keepdims=True), 1e-30)
    return shares


def head(values: np.ndarray, hidden: np.ndarray, **others: Any) -> HeadMap:
    reads, read_ = (plain_axis("token", [str(n) for n in range(count)]) for count in values.shape)
    return HeadMap(
        name="head", query_axis=reads, key_axis=read_, weights=StoredCells(values, hidden), **others
    )


def random_heads(
    count: int, tokens: int, *, seed: int = 0, columns: int | None = None
) -> tuple[HeadExplorer, list[np.ndarray]]:
    """Causal heads of random scores, and these."""
    random, wide = np.random.default_rng(seed), columns or tokens
    hidden = np.triu(np.ones((tokens, wide), dtype=bool), 1)
    scores = [random.standard_normal((tokens, wide), dtype=np.float32) for _ in range(count)]
    sides = head(scores[0], hidden)
    maps = [
        replace(
            sides,
            name=f"H{number}",
            weights=StoredCells(softmax(each, hidden), hidden),
            scores=StoredCells(np.where(hidden, -np.inf, each), hidden),
        )
        for number, each in enumerate(scores)
    ]
    return arrange_heads([("L0", each.name, each) for each in maps]), scores


def unpacked(about: dict[str, Any], blocks: dict[str, str], name: str) -> np.ndarray:
    table = about["tables"][name]
    raw = base64.b64decode(blocks[name])
    seen = b"" if table["mask"] is None else base64.b64decode(blocks[f"mask-{table['mask']}"])
    return numbers_of(table, raw, zlib.decompress(seen) if seen else b"")


@given(patches(), some.sampled_from(BITS))
@settings(max_examples=100, deadline=None)
def test_what_is_read_back_is_as_near_as_it_says_and_never_further_than_half_a_step(
    patch: StoredCells, bits: int
) -> None:
    table = pack_table(patch, bits)
    found, seen = read(table), ~patch.hidden

    assert (np.isnan(found) == patch.hidden).all()
    off = np.abs(found[seen] - patch.values[seen])
    least = 1e-44  # a few of the smallest steps that a float32 can make
    assert (off <= table.error + 1e-6 * np.abs(patch.values[seen]) + least).all()
    values = np.where(seen, patch.values, 0)
    reach = np.abs(values).max(axis=1, keepdims=True)
    most = 2 ** (bits - table.signed) - 1
    shares = np.sqrt(np.abs(values) / np.maximum(reach, packing.MIN_REACH))
    half_a_step = reach * (shares / most + 0.25 / most**2) + 1e-5 * reach + 1e-30
    assert (np.abs(np.where(seen, found - values, 0)) <= half_a_step).all()


@given(patches(some.floats(0, 1, width=32, allow_subnormal=False)), some.sampled_from(BITS))
@settings(max_examples=100, deadline=None)
def test_the_largest_number_of_a_row_is_kept_as_it_is(patch: StoredCells, bits: int) -> None:
    """Below 1.2e-38, where float32 itself has fewer digits, only as nearly as is stated."""
    found = np.nan_to_num(read(pack_table(patch, bits)), nan=0)
    seen = np.where(patch.hidden, 0, patch.values)

    assert np.array_equal(found.max(axis=1).astype(np.float32), seen.max(axis=1))


@given(patches(some.floats(width=32)))
@settings(max_examples=100, deadline=None)
def test_on_a_small_page_every_number_is_what_it_was_and_so_is_what_is_none(
    patch: StoredCells,
) -> None:
    for bits in (packing.EXACT_BITS, *BITS):
        table = pack_table(patch, bits)
        if bits == packing.EXACT_BITS or not np.isfinite(patch.values[~patch.hidden]).all():
            same = np.where(patch.hidden, np.nan, patch.values)
            assert np.array_equal(read(table), same, equal_nan=True)
            assert table.error == 0


def test_numbers_that_need_64_bits_have_them_and_others_do_not() -> None:
    hidden = np.zeros((1, 2), dtype=bool)

    assert pack_table(StoredCells(np.array([[0.1, 0.2]]), hidden), 32).bits == 64
    assert pack_table(StoredCells(np.array([[0.5, 0.25]]), hidden), 32).bits == 32
    assert pack_table(StoredCells(np.array([[1, 2]]), hidden), 32).bits == 32
    half = pack_table(StoredCells(np.array([[0.1, 0.2]], dtype=np.float16), hidden), 32)
    assert np.array_equal(read(half), np.array([[0.1, 0.2]], dtype=np.float16))


@given(patches(some.floats(-30, 30, width=32)), some.sampled_from(BITS))
@settings(max_examples=60, deadline=None)
def test_scores_come_back_out_of_weights_as_nearly_as_a_code_can_tell(
    scores: StoredCells, bits: int
) -> None:
    weights = softmax(scores.values, scores.hidden).astype(np.float32)
    table = pack_table(StoredCells(weights, scores.hidden), bits, scores)

    assert table.slack is not None
    assert table.slack < 1e-4
    found, most = read(table), 2**bits - 1
    reach = np.maximum(np.nan_to_num(found, nan=0).max(axis=1, keepdims=True), packing.MIN_REACH)
    codes = np.rint(np.sqrt(found / reach) * most)
    for row, column in np.argwhere(codes > 0):
        code = codes[row, column]
        score = math.log(found[row, column]) + sums_in(table)[row]
        error = 2 * math.log(code / (code - 0.5)) + table.slack + 1e-5
        assert abs(score - scores.values[row, column]) <= error
    for row, column in np.argwhere(codes == 0):
        least = math.log(reach[row, 0] * (0.5 / most) ** 2) + sums_in(table)[row]
        assert scores.values[row, column] <= least + table.slack + 1e-5


def test_where_weights_are_not_the_softmax_of_scores_no_scores_are_made_of_them() -> None:
    scores = np.random.default_rng(0).standard_normal((4, 4), dtype=np.float32)
    hidden = np.zeros((4, 4), dtype=bool)
    weights = softmax(scores, hidden)[:, ::-1].copy()

    assert pack_table(StoredCells(weights, hidden), 8, StoredCells(scores, hidden)).slack is None


def test_a_row_that_reads_nothing_and_a_table_that_hides_everything_are_kept() -> None:
    hidden = np.array([[True, True], [False, True]])
    scores = StoredCells(np.where(hidden, -np.inf, 0.5), hidden)
    table = pack_table(StoredCells(np.array([[0.0, 0.0], [1.0, 0.0]]), hidden), 8, scores)
    nothing = pack_table(StoredCells(np.zeros((2, 2)), np.ones((2, 2), dtype=bool)), 8)

    assert np.array_equal(read(table), [[np.nan, np.nan], [1, np.nan]], equal_nan=True)
    assert np.isnan(read(nothing)).all()


def test_the_same_heads_are_the_same_bytes_and_masks_are_there_once() -> None:
    explored, _ = random_heads(6, 30)

    assert pack_heads(explored) == pack_heads(explored)
    assert [name for name in pack_heads(explored)[1] if name.startswith("mask")] == [
        "mask-0",
        "mask-1",
    ]  # of the heads, and of thumbnails


def test_a_small_page_has_every_number_and_every_score() -> None:
    explored, scores = random_heads(2, 20)
    about, blocks = pack_heads(explored)

    assert about["accuracy"] == ""
    for number, each in enumerate(explored.heads):
        seen = np.where(each.weights.window(slice(None), slice(None)).hidden, np.nan, 1)
        weights = each.weights.window(slice(None), slice(None)).values.astype(np.float32)
        found = unpacked(about, blocks, f"weights-{number}")
        assert np.array_equal(found.astype(np.float32), weights * seen, equal_nan=True)
        kept = unpacked(about, blocks, f"scores-{number}")
        assert np.array_equal(kept, scores[number] * seen, equal_nan=True)


def test_what_a_page_says_of_its_accuracy_is_its_largest_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packing, "MAX_CELLS_BY_BITS", {})
    explored, _ = random_heads(3, 20)
    about, blocks = pack_heads(explored)

    largest = 0.0
    for number, each in enumerate(explored.heads):
        patch = each.weights.window(slice(None), slice(None))
        off = np.abs(unpacked(about, blocks, f"weights-{number}") - patch.values)
        largest = max(largest, float(np.nanmax(off)))
    assert bits_per_number(1) == 8
    assert about["accuracy"] == (
        f"numbers are stored in 8 bits, with an error of {largest:.1e} at most; "
        "scores are computed from them"
    )


def test_pages_of_128_tokens_have_two_megabytes_at_most() -> None:
    explored, _ = random_heads(8, 128)
    about, blocks = pack_heads(replace(explored, heads=explored.heads * 18))

    assert len(about["heads"]) == 144
    assert about["tables"]["weights-0"]["bits"] == 8
    assert sum(map(len, blocks.values())) < 1_800_000  # and 200 kB for all else


def test_thumbnails_are_heads_in_blocks_and_never_more_than_a_few_cells() -> None:
    explored, _ = random_heads(3, 100)
    about, blocks = pack_heads(explored)
    found = unpacked(about, blocks, "thumbnails")

    for row, (each, one) in enumerate(zip(explored.heads, about["heads"], strict=True)):
        few = thumbnail_cells(each.weights, share=True)
        rows, columns = one["small"]
        assert max(rows, columns) <= 32
        near = found[row, : rows * columns].reshape(rows, columns)
        assert np.array_equal(np.isnan(near), few.hidden)
        error = about["tables"]["thumbnails"]["error"] + 1e-6
        assert np.nanmax(np.abs(near - few.values)) <= error


def in_little_room(monkeypatch: pytest.MonkeyPatch, explored: HeadExplorer, room: int) -> Any:
    monkeypatch.setattr(packing, "MAX_CELLS_BY_BITS", {})
    monkeypatch.setattr(page_heads, "MAX_HEADS_BYTES", room)
    return pack_heads(explored)


@pytest.mark.parametrize(("room", "bits"), [(10_100, 8), (9_400, 7), (9_000, 6)])
def test_where_eight_bits_have_no_room_fewer_may(
    room: int, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    explored, _ = random_heads(4, 64)
    about, _ = in_little_room(monkeypatch, explored, room)

    assert about["tables"]["weights-0"]["bits"] == bits
    assert "kept" not in about["heads"][0]


@pytest.mark.parametrize("query", [None, 3, 99])
def test_long_texts_have_blocks_and_as_many_rows_as_have_room(
    query: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    explored, scores = random_heads(4, 100)
    explored, room = replace(explored, query=query), 9_000
    about, blocks = in_little_room(monkeypatch, explored, room)

    assert 0.6 * room < sum(len(base64.b64decode(each)) for each in blocks.values()) < 1.2 * room
    for number, (each, one) in enumerate(zip(explored.heads, about["heads"], strict=True)):
        pooled = each.weights.pooled(one["tall"], one["wide"], share=True)
        found = unpacked(about, blocks, f"weights-{number}")
        error = about["tables"][f"weights-{number}"]["error"]
        assert np.array_equal(np.isnan(found), pooled.hidden)
        assert np.nanmax(np.abs(found - pooled.values)) <= error + 1e-6
        for place, kept in enumerate(one["kept"]):
            name = f"kept{place}-{number}"
            rows = range(kept["first"], 100, kept["step"])
            assert len(rows) == kept["count"]
            whole = softmax(scores[number], np.triu(np.ones((100, 100), dtype=bool), 1))[rows]
            off = np.nanmax(np.abs(unpacked(about, blocks, name) - whole))
            assert off <= about["tables"][name]["error"] + 1e-6
        assert range(one["kept"][-1]["first"], 100, one["kept"][-1]["step"])[-1] == 99
        if query is not None:
            assert one["kept"][0] == {"first": query, "step": 100, "count": 1}
            assert about["tables"][f"kept0-{number}"]["bits"] >= 16


def test_twice_as_many_tokens_take_at_most_twice_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a table that is in memory already, as that of a text of 8,192 tokens and of 16,384."""
    for module, name, number in (
        (cells, "CELLS_PER_BAND", 2**11),
        (head_tables, "SAMPLED_CELLS", 2**11),
        (head_tables, "MAX_CELLS_IN_MEMORY", 2**11),
    ):
        monkeypatch.setattr(module, name, number)
    peaks = []
    for tokens in (256, 512):
        explored, _ = random_heads(1, tokens)
        tracemalloc.start()
        in_little_room(monkeypatch, explored, 20_000)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    assert peaks[1] < 2 * peaks[0]
    assert peaks[1] < 2 * 512**2  # bytes; numbers alone have twice as many


def test_of_a_long_text_a_page_says_what_one_cell_is_and_which_rows_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    explored, _ = random_heads(4, 100)
    about, _ = in_little_room(monkeypatch, replace(explored, query=3), 9_000)
    one, spread = about["heads"][0], about["heads"][0]["kept"][-1]

    assert about["note"] == (
        f"one cell = {one['tall']} × {one['wide']} tokens: weights added over the keys, averaged "
        f"over the queries · token by token one row in {spread['step']} ({spread['count']} of "
        "100), the last among them, and the chosen one"
    )
    assert about["scales"] != about["rowScales"]


def test_all_whose_numbers_have_one_name_have_one_scale() -> None:
    random, hidden = np.random.default_rng(1), np.zeros((3, 3), dtype=bool)
    shares = [head(softmax(s, hidden), hidden) for s in random.standard_normal((2, 3, 3))]
    values = random.standard_normal((2, 3, 3)).clip(-1.4, 1.4)
    signed = [
        head(each, hidden, share=False, measure="difference") for each in (values[0], values[1] * 9)
    ]
    about, _ = pack_heads(
        arrange_heads([("", str(n), each) for n, each in enumerate(shares + signed)])
    )

    assert [each["scale"] for each in about["heads"]] == [0, 0, 1, 1]
    assert [(each["label"], each["low"], each["kind"]) for each in about["scales"]] == [
        ("weight", 0, "sequential"),
        ("difference", -about["scales"][1]["high"], "diverging"),
    ]
    assert about["scales"][1]["high"] >= np.abs(values[1] * 9).max()
    assert about["scale"] == about["scales"][0]
