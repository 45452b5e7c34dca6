"""Every finding on a head has a claim that is true: whole texts, rows, parts, queries, links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from attnviz import trace
from attnviz.analysis.inspection.inspection import Inspection
from attnviz.analysis.inspection.token_query import build_link, build_token_query
from attnviz.cells import FULL_SLICE
from attnviz.views.conclusions.findings import Finding
from attnviz.views.conclusions.weight_titles import WEIGHT_FINDINGS
from attnviz.views.heads.findings import PART_FINDINGS, ROW_FINDINGS, WHOLE_FINDINGS
from attnviz.views.heads.grid import measured_head, whole_head
from attnviz.views.inspection.link_sentences import LINK_FINDINGS, READING_FINDINGS
from attnviz.views.inspection.long_heads import ROW_OF_HEADS_FINDINGS, RowOfHeads
from tests import claims_of_heads, claims_of_titles
from tests.claims_of_heads import Evidence, check_finding
from tests.test_looking import inspect_trace

Table = Sequence[Finding[Any]]
TITLES: tuple[Table, ...] = (WEIGHT_FINDINGS,)
TABLES: tuple[Table, ...] = (
    WHOLE_FINDINGS,
    ROW_FINDINGS,
    PART_FINDINGS,
    ROW_OF_HEADS_FINDINGS,
    READING_FINDINGS,
    LINK_FINDINGS,
)
SETTINGS = some.fixed_dictionaries(
    {
        "variant": some.sampled_from(["scaled", "average"]),
        "causal": some.booleans(),
        "positions": some.sampled_from(["none", "alibi"]),
        "seed": some.integers(0, 9),
    },
    optional={"window": some.integers(1, 12)},
)
TEMPERATURES = some.sampled_from([0.02, 0.3, 1.0])


def names_of(tables: Sequence[Table]) -> list[str]:
    return [finding.name for table in tables for finding in table]


def test_every_finding_on_a_head_has_a_claim_by_its_name() -> None:
    names = names_of(TABLES)

    assert sorted(names) == sorted(claims_of_heads.claims.by_name)
    assert {*names_of(TITLES), claims_of_titles.OTHER_PARTS} == {*claims_of_titles.claims.by_name}
    for table in (*TITLES, *TABLES):
        assert len({*names_of([table])}) == len(table)


@given(count=some.integers(1, 40), settings=SETTINGS, temperature=TEMPERATURES, data=some.data())
def test_what_stands_out_in_a_text_a_part_or_a_row_is_true(
    count: int, settings: dict[str, Any], temperature: float, data: some.DataObject
) -> None:
    text = " ".join(f"w{number % 9}" for number in range(count))
    heat = {} if settings["variant"] == "average" else {"temperature": temperature}
    options: dict[str, Any] = {"tokenizer": "spaces", **settings, **heat}
    streamed, layer = trace(text, stream=True, **options), trace(text, **options).layers[0]
    bounds = [sorted(data.draw(some.tuples(*[some.integers(0, count - 1)] * 2))) for _ in range(2)]
    queries, keys = (range(first, last + 1) for first, last in bounds)
    query, everything = queries[0], range(count)
    labels = streamed.tokens.labels
    weights = layer.attended.weights.double().numpy()
    visible = np.broadcast_to(layer.visible.numpy(), weights.shape)

    def evidence(queries: range, keys: range) -> Evidence:
        return Evidence(labels, weights, visible, queries, keys)

    head = whole_head(streamed, streamed.layers[0], 0)
    measured = measured_head(streamed, streamed.layers[0], 0)
    row = range(query, query + 1)
    check_finding(WHOLE_FINDINGS, measured, evidence(everything, everything))
    check_finding(ROW_FINDINGS, head.row(query), evidence(row, everything))
    check_finding(ROW_FINDINGS, head.part(row, keys), evidence(row, keys))
    check_finding(PART_FINDINGS, head.part(queries, keys), evidence(queries, keys))
    check_finding(PART_FINDINGS, head.part(queries, everything), evidence(queries, everything))


@given(count=some.integers(1, 12), settings=SETTINGS, query=some.integers(0, 11))
def test_what_most_heads_attend_to_is_true(
    count: int, settings: dict[str, Any], query: int
) -> None:
    text, query = " ".join(f"w{number}" for number in range(count)), min(query, count - 1)
    result = trace(text, tokenizer="spaces", heads=4, dim=16, **settings)
    layer = result.layers[0]
    weights = layer.attended.weights.double().numpy()
    visible = np.broadcast_to(layer.visible.numpy(), weights.shape)
    row = range(query, query + 1)
    evidence = Evidence(result.tokens.labels, weights, visible, row, range(count))
    heads = RowOfHeads(
        whole_head(result, layer, 0), query, weights[:, query], evidence.even[:, query]
    )

    check_finding(ROW_OF_HEADS_FINDINGS, heads, evidence)


@pytest.mark.parametrize("choices", [{}, {"merge": "rollout"}, {"layer": 1, "head": 2}])
@given(
    count=some.integers(2, 9),
    settings=SETTINGS,
    temperature=some.sampled_from([0.3, 1.0]),  # none that rounds a weight to 0
    data=some.data(),
)
def test_what_a_token_attends_to_and_what_a_link_gets_is_true(
    count: int,
    settings: dict[str, Any],
    temperature: float,
    choices: dict[str, Any],
    data: some.DataObject,
) -> None:
    heat = {} if settings["variant"] == "average" else {"temperature": temperature}
    options: dict[str, Any] = {"heads": 3, "layers": 2, "dim": 12, **settings, **heat}
    result = trace(" ".join("abcdefghi"[:count]), tokenizer="spaces", **options)
    query, key = data.draw(some.tuples(*[some.integers(0, count - 1)] * 2))
    inspection = inspect_trace(result, **choices)

    facts = build_token_query(inspection.maps, inspection.options, query)
    check_finding(READING_FINDINGS, facts, map_evidence(inspection, query))
    is_seen = any(row.sees(key) for row in facts.map_rows)
    if is_seen and not choices.get("merge"):
        inspection = inspect_trace(result, source=query, to=key, **choices)
        link = build_link(inspection.maps, inspection.options)
        check_finding(LINK_FINDINGS, link, map_evidence(inspection, query))


def map_evidence(inspection: Inspection, query: int) -> Evidence:
    patches = [each.cells.window(FULL_SLICE, FULL_SLICE) for each in inspection.maps]
    return Evidence(
        inspection.trace.tokens.labels,
        np.stack([patch.values.astype(float) for patch in patches]),
        ~np.stack([patch.hidden for patch in patches]),
        range(query, query + 1),
        range(len(inspection.trace.tokens)),
        [each.name for each in inspection.maps],
    )
