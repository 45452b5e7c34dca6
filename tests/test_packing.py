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
from tests.tiers import examples

BITS = (6, 7, 8, 16)
FLOATS = some.floats(-1e6, 1e6, width=32)


def numbers_of(about: dict[str, Any], block: bytes, mask_bits: bytes) -> np.ndarray:
    """What a page reads, by the format: reach of each row, sums of each row, a code for a cell."""
    rows, columns = about["rows"], about["columns"]
    raw = zlib.decompress(block)
    bits = np.unpackbits(np.frombuffer(mask_bits, np.uint8), bitorder="little")[: rows * columns]
    mask = bits.astype(bool) if mask_bits else np.ones(rows * columns, dtype=bool)
    numbers = np.full(rows * columns, np.nan)
    if about["bits"] >= 32:
        numbers[mask] = np.frombuffer(raw, f"<f{about['bits'] // 8}")
        return numbers.reshape(rows, columns)
    reach = np.frombuffer(raw, "<f4", rows)
    kind = ("<i" if about["signed"] else "<u") + ("1" if about["bits"] <= 8 else "2")
    codes = np.frombuffer(raw[(4 if about["slack"] is None else 8) * rows :], kind).astype(float)
    largest_code = 2 ** (about["bits"] - about["signed"]) - 1
    shares = codes / largest_code
    numbers[mask] = np.sign(shares) * shares**2 * np.repeat(reach, columns)[mask]
    return numbers.reshape(rows, columns)


def read_packed(table: PackedTable) -> np.ndarray:
    return numbers_of(table.about, table.block, table.mask_bits)


def sums_in(table: PackedTable) -> np.ndarray:
    rows = table.shape[0]
    sums: np.ndarray = np.frombuffer(zlib.decompress(table.block), "<f4", rows, 4 * rows)
    return sums


@some.composite
def stored_cells(draw: some.DrawFn, elements: some.SearchStrategy[float] = FLOATS) -> StoredCells:
    shape = draw(some.tuples(some.integers(1, 9), some.integers(1, 12)))
    values = draw(arrays.arrays(np.float32, shape, elements=elements))
    return StoredCells(values, draw(arrays.arrays(bool, shape)))


def softmax(scores: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    visible_scores = np.where(hidden, -np.inf, scores)
    with np.errstate(invalid="ignore"):
        powers = np.where(
            hidden, 0, np.exp(visible_scores - visible_scores.max(axis=1, keepdims=True))
        )
    shares: np.ndarray = powers / np.maximum(powers.sum(axis=1, keepdims=True), 1e-30)
    return shares


def head(values: np.ndarray, hidden: np.ndarray, **options: Any) -> HeadMap:
    query_axis, key_axis = (
        plain_axis("token", [str(n) for n in range(count)]) for count in values.shape
    )
    return HeadMap(
        name="head",
        query_axis=query_axis,
        key_axis=key_axis,
        weights=StoredCells(values, hidden),
        **options,
    )


def random_heads(
    count: int, tokens: int, *, seed: int = 0, columns: int | None = None
) -> tuple[HeadExplorer, list[np.ndarray]]:
    """Causal heads of random scores, and these."""
    generator, key_count = np.random.default_rng(seed), columns or tokens
    hidden = np.triu(np.ones((tokens, key_count), dtype=bool), 1)
    scores = [
        generator.standard_normal((tokens, key_count), dtype=np.float32) for _ in range(count)
    ]
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


def unpack_table(about: dict[str, Any], blocks: dict[str, str], name: str) -> np.ndarray:
    table = about["tables"][name]
    raw = base64.b64decode(blocks[name])
    mask = b"" if table["mask"] is None else base64.b64decode(blocks[f"mask-{table['mask']}"])
    return numbers_of(table, raw, zlib.decompress(mask) if mask else b"")


@given(stored_cells(), some.sampled_from(BITS))
@settings(max_examples=examples(100), deadline=None)
def test_what_is_read_back_is_as_near_as_it_says_and_never_further_than_half_a_step(
    patch: StoredCells, bits: int
) -> None:
    table = pack_table(patch, bits)
    numbers, visible = read_packed(table), ~patch.hidden

    assert (np.isnan(numbers) == patch.hidden).all()
    errors = np.abs(numbers[visible] - patch.values[visible])
    float_step = 1e-44  # a few of the smallest steps that a float32 can make
    assert (errors <= table.error + 1e-6 * np.abs(patch.values[visible]) + float_step).all()
    values = np.where(visible, patch.values, 0)
    reach = np.abs(values).max(axis=1, keepdims=True)
    largest_code = 2 ** (bits - table.signed) - 1
    shares = np.sqrt(np.abs(values) / np.maximum(reach, packing.MIN_REACH))
    half_a_step = reach * (shares / largest_code + 0.25 / largest_code**2) + 1e-5 * reach + 1e-30
    assert (np.abs(np.where(visible, numbers - values, 0)) <= half_a_step).all()


@given(stored_cells(some.floats(0, 1, width=32, allow_subnormal=False)), some.sampled_from(BITS))
@settings(max_examples=examples(100), deadline=None)
def test_the_largest_number_of_a_row_is_kept_as_it_is(patch: StoredCells, bits: int) -> None:
    """Below 1.2e-38, where float32 itself has fewer digits, only as nearly as is stated."""
    numbers = np.nan_to_num(read_packed(pack_table(patch, bits)), nan=0)
    expected = np.where(patch.hidden, 0, patch.values)

    assert np.array_equal(numbers.max(axis=1).astype(np.float32), expected.max(axis=1))


@given(stored_cells(some.floats(width=32)))
@settings(max_examples=examples(100), deadline=None)
def test_on_a_small_page_every_number_is_what_it_was_and_so_is_what_is_none(
    patch: StoredCells,
) -> None:
    for bits in (packing.EXACT_BITS, *BITS):
        table = pack_table(patch, bits)
        if bits == packing.EXACT_BITS or not np.isfinite(patch.values[~patch.hidden]).all():
            expected = np.where(patch.hidden, np.nan, patch.values)
            assert np.array_equal(read_packed(table), expected, equal_nan=True)
            assert table.error == 0


def test_numbers_that_need_64_bits_have_them_and_others_do_not() -> None:
    hidden = np.zeros((1, 2), dtype=bool)

    assert pack_table(StoredCells(np.array([[0.1, 0.2]]), hidden), 32).bits == 64
    assert pack_table(StoredCells(np.array([[0.5, 0.25]]), hidden), 32).bits == 32
    assert pack_table(StoredCells(np.array([[1, 2]]), hidden), 32).bits == 32
    half_precision = pack_table(StoredCells(np.array([[0.1, 0.2]], dtype=np.float16), hidden), 32)
    assert np.array_equal(read_packed(half_precision), np.array([[0.1, 0.2]], dtype=np.float16))


@given(stored_cells(some.floats(-30, 30, width=32)), some.sampled_from(BITS))
@settings(max_examples=examples(60), deadline=None)
def test_scores_come_back_out_of_weights_as_nearly_as_a_code_can_tell(
    scores: StoredCells, bits: int
) -> None:
    weights = softmax(scores.values, scores.hidden).astype(np.float32)
    table = pack_table(StoredCells(weights, scores.hidden), bits, scores)

    assert table.slack is not None
    assert table.slack < 1e-4
    numbers, largest_code = read_packed(table), 2**bits - 1
    reach = np.maximum(np.nan_to_num(numbers, nan=0).max(axis=1, keepdims=True), packing.MIN_REACH)
    codes = np.rint(np.sqrt(numbers / reach) * largest_code)
    for row, column in np.argwhere(codes > 0):
        code = codes[row, column]
        score = math.log(numbers[row, column]) + sums_in(table)[row]
        error = 2 * math.log(code / (code - 0.5)) + table.slack + 1e-5
        assert abs(score - scores.values[row, column]) <= error
    for row, column in np.argwhere(codes == 0):
        least = math.log(reach[row, 0] * (0.5 / largest_code) ** 2) + sums_in(table)[row]
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
    empty_table = pack_table(StoredCells(np.zeros((2, 2)), np.ones((2, 2), dtype=bool)), 8)

    assert np.array_equal(read_packed(table), [[np.nan, np.nan], [1, np.nan]], equal_nan=True)
    assert np.isnan(read_packed(empty_table)).all()


def test_the_same_heads_are_the_same_bytes_and_masks_are_there_once() -> None:
    explorer, _ = random_heads(6, 30)

    assert pack_heads(explorer) == pack_heads(explorer)
    assert [name for name in pack_heads(explorer)[1] if name.startswith("mask")] == [
        "mask-0",
        "mask-1",
    ]  # of the heads, and of thumbnails


def test_a_small_page_has_every_number_and_every_score() -> None:
    explorer, scores = random_heads(2, 20)
    about, blocks = pack_heads(explorer)

    assert about["accuracy"] == ""
    for number, each in enumerate(explorer.heads):
        nan_where_hidden = np.where(each.weights.window(slice(None), slice(None)).hidden, np.nan, 1)
        weights = each.weights.window(slice(None), slice(None)).values.astype(np.float32)
        weights_read = unpack_table(about, blocks, f"weights-{number}")
        assert np.array_equal(
            weights_read.astype(np.float32), weights * nan_where_hidden, equal_nan=True
        )
        scores_read = unpack_table(about, blocks, f"scores-{number}")
        assert np.array_equal(scores_read, scores[number] * nan_where_hidden, equal_nan=True)


def test_what_a_page_says_of_its_accuracy_is_its_largest_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packing, "MAX_CELLS_BY_BITS", {})
    explorer, _ = random_heads(3, 20)
    about, blocks = pack_heads(explorer)

    largest = 0.0
    for number, each in enumerate(explorer.heads):
        patch = each.weights.window(slice(None), slice(None))
        errors = np.abs(unpack_table(about, blocks, f"weights-{number}") - patch.values)
        largest = max(largest, float(np.nanmax(errors)))
    assert bits_per_number(1) == 8
    assert about["accuracy"] == (
        f"numbers are stored in 8 bits, with an error of {largest:.1e} at most; "
        "scores are computed from them"
    )


def test_pages_of_128_tokens_have_two_megabytes_at_most() -> None:
    explorer, _ = random_heads(8, 128)
    about, blocks = pack_heads(replace(explorer, heads=explorer.heads * 18))

    assert len(about["heads"]) == 144
    assert about["tables"]["weights-0"]["bits"] == 8
    assert sum(map(len, blocks.values())) < 1_800_000  # and 200 kB for all else


def test_thumbnails_are_heads_in_blocks_and_never_more_than_a_few_cells() -> None:
    explorer, _ = random_heads(3, 100)
    about, blocks = pack_heads(explorer)
    thumbnails = unpack_table(about, blocks, "thumbnails")

    for row, (each, one) in enumerate(zip(explorer.heads, about["heads"], strict=True)):
        expected = thumbnail_cells(each.weights, share=True)
        rows, columns = one["small"]
        assert max(rows, columns) <= 32
        thumbnail = thumbnails[row, : rows * columns].reshape(rows, columns)
        assert np.array_equal(np.isnan(thumbnail), expected.hidden)
        error = about["tables"]["thumbnails"]["error"] + 1e-6
        assert np.nanmax(np.abs(thumbnail - expected.values)) <= error


def pack_into_few_bytes(monkeypatch: pytest.MonkeyPatch, explorer: HeadExplorer, room: int) -> Any:
    monkeypatch.setattr(packing, "MAX_CELLS_BY_BITS", {})
    monkeypatch.setattr(page_heads, "MAX_HEADS_BYTES", room)
    return pack_heads(explorer)


@pytest.mark.parametrize(("room", "bits"), [(10_100, 8), (9_400, 7), (9_000, 6)])
def test_where_eight_bits_have_no_room_fewer_may(
    room: int, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    explorer, _ = random_heads(4, 64)
    about, _ = pack_into_few_bytes(monkeypatch, explorer, room)

    assert about["tables"]["weights-0"]["bits"] == bits
    assert "kept" not in about["heads"][0]


@pytest.mark.parametrize("query", [None, 3, 99])
def test_long_texts_have_blocks_and_as_many_rows_as_have_room(
    query: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    explorer, scores = random_heads(4, 100)
    explorer, room = replace(explorer, query=query), 9_000
    about, blocks = pack_into_few_bytes(monkeypatch, explorer, room)

    assert 0.6 * room < sum(len(base64.b64decode(each)) for each in blocks.values()) < 1.2 * room
    for number, (each, head_entry) in enumerate(zip(explorer.heads, about["heads"], strict=True)):
        pooled = each.weights.pooled(head_entry["tall"], head_entry["wide"], share=True)
        blocks_read = unpack_table(about, blocks, f"weights-{number}")
        error = about["tables"][f"weights-{number}"]["error"]
        assert np.array_equal(np.isnan(blocks_read), pooled.hidden)
        assert np.nanmax(np.abs(blocks_read - pooled.values)) <= error + 1e-6
        for place, row_group in enumerate(head_entry["kept"]):
            name = f"kept{place}-{number}"
            rows = range(row_group["first"], 100, row_group["step"])
            assert len(rows) == row_group["count"]
            exact_rows = softmax(scores[number], np.triu(np.ones((100, 100), dtype=bool), 1))[rows]
            error_of_rows = np.nanmax(np.abs(unpack_table(about, blocks, name) - exact_rows))
            assert error_of_rows <= about["tables"][name]["error"] + 1e-6
        assert range(head_entry["kept"][-1]["first"], 100, head_entry["kept"][-1]["step"])[-1] == 99
        if query is not None:
            assert head_entry["kept"][0] == {"first": query, "step": 100, "count": 1}
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
        explorer, _ = random_heads(1, tokens)
        tracemalloc.start()
        pack_into_few_bytes(monkeypatch, explorer, 20_000)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    assert peaks[1] < 2 * peaks[0]
    assert peaks[1] < 2 * 512**2  # bytes; numbers alone have twice as many


def test_of_a_long_text_a_page_says_what_one_cell_is_and_which_rows_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    explorer, _ = random_heads(4, 100)
    about, _ = pack_into_few_bytes(monkeypatch, replace(explorer, query=3), 9_000)
    first_head, spread_rows = about["heads"][0], about["heads"][0]["kept"][-1]

    assert about["note"] == (
        f"one cell = {first_head['tall']} × {first_head['wide']} tokens: weights added over the "
        f"keys, averaged over the queries · token by token one row in {spread_rows['step']} "
        f"({spread_rows['count']} of 100), the last among them, and the chosen one"
    )
    assert about["scales"] != about["rowScales"]


def test_all_whose_numbers_have_one_name_have_one_scale() -> None:
    generator, hidden = np.random.default_rng(1), np.zeros((3, 3), dtype=bool)
    shares = [head(softmax(s, hidden), hidden) for s in generator.standard_normal((2, 3, 3))]
    values = generator.standard_normal((2, 3, 3)).clip(-1.4, 1.4)
    signed_heads = [
        head(each, hidden, share=False, measure="difference") for each in (values[0], values[1] * 9)
    ]
    about, _ = pack_heads(
        arrange_heads([("", str(n), each) for n, each in enumerate(shares + signed_heads)])
    )

    assert [each["scale"] for each in about["heads"]] == [0, 0, 1, 1]
    assert [(each["label"], each["low"], each["kind"]) for each in about["scales"]] == [
        ("weight", 0, "sequential"),
        ("difference", -about["scales"][1]["high"], "diverging"),
    ]
    assert about["scales"][1]["high"] >= np.abs(values[1] * 9).max()
    assert about["scale"] == about["scales"][0]
