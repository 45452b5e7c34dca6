"""How much each head changes what a model computes: compared with runs without that head."""

from __future__ import annotations

import csv
import io
import json
from math import log
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from attnviz import AttnvizError, trace
from attnviz.analysis.inspection import effects
from attnviz.analysis.inspection.effects import divergence_bits
from attnviz.analysis.inspection.inspection import Inspection, inspect
from attnviz.traces.trained.loading import load_transformer
from attnviz.views.grids.grid import Grid
from attnviz.views.inspection.effects import effect_sentences, ranked_effects
from tests.conftest import Attnviz
from tests.small_transformers import TEXT, Saved

GAP = "The animal [MASK] the street because it was too tired"
SHORT_TEXT = "the animal was tired"


@pytest.fixture(scope="module")
def minilm_inspection() -> Inspection:
    return inspect(SHORT_TEXT, layer=5, by="effect")


def test_what_a_head_changes_of_vectors_is_what_a_run_without_it_shows(
    minilm_inspection: Inspection,
) -> None:
    effects = minilm_inspection.effects
    assert effects.measured == "vectors"
    for each in (effects.heads[0], effects.heads[-1]):
        outputs = trace(SHORT_TEXT, model="minilm", without=each.name).outputs
        assert outputs is not None
        assert outputs.with_all_heads is not None
        shifts = (outputs.vectors - outputs.with_all_heads).norm(dim=1)
        assert_close(each.amounts.float(), shifts / outputs.with_all_heads.norm(dim=1))


@pytest.mark.parametrize("head", ["L1H12", "L9H1"])
def test_a_head_that_there_is_not_cannot_be_off(head: str) -> None:
    with pytest.raises(AttnvizError, match=f"'without' names {head}, but there is no") as refusal:
        inspect(SHORT_TEXT, without=head)
    assert refusal.value.hint == "there are 72 heads, from L0H0 to L5H11"


def test_a_head_that_is_off_is_named_where_another_layer_is_shown() -> None:
    view = inspect(SHORT_TEXT, layer=4, head=3, without="L5H11").view()
    assert "with L5H11 switched off" in view.title
    table = view.screen.panels[-1]
    assert isinstance(table, Grid)
    assert table.title == "last vectors with L5H11 switched off"
    assert "L5H11 is switched off: its output is replaced by 0." in view.closing
    assert view.closing[-1].startswith("Without L5H11 the last vectors change by ")


def test_the_head_that_changes_most_comes_first(minilm_inspection: Inspection) -> None:
    means = [each.mean for each in minilm_inspection.effects.heads]
    assert means == sorted(means, reverse=True)
    assert len({each.name for each in minilm_inspection.effects.heads}) == 12


def test_the_first_is_told_of_with_its_figures(minilm_inspection: Inspection) -> None:
    top_head = minilm_inspection.effects.heads[0]
    sentence, detail, caveat = effect_sentences(minilm_inspection)
    assert top_head.cosine is not None
    change = f"{100 * top_head.mean:.0f}\u00a0%"
    assert sentence == (
        f"with {top_head.name} zeroed, the last vectors change by {change} of their length, "
        "the most of 12 heads"
    )
    count = len(minilm_inspection.trace.tokens)
    cosine = f"{top_head.cosine:.2f}".removeprefix("0")
    assert detail == f"that is the mean over {count} tokens; mean cosine {cosine}"
    assert caveat.startswith("each head is switched off by itself (its output is 0)")


def test_what_a_head_changes_of_answers_is_their_divergence(small_transformer: Saved) -> None:
    """From all answers of two runs through transformers, in bits."""
    inspection = inspect(GAP, model=str(small_transformer("bert")), by="effect")
    effects, mask_position = inspection.effects, inspection.trace.tokens.labels.index("[MASK]")
    model = load_transformer(inspection.trace.origin.settings).model
    ids = torch.tensor([inspection.trace.tokens.ids])
    with torch.no_grad():
        answers_before = model(input_ids=ids).logits[0, mask_position].double().softmax(-1)
        weight = model.get_submodule("bert.encoder.layer.0.attention.output.dense").weight
        saved_weight = weight.clone()
        weight[:, 8:12] = 0
        answers_after = model(input_ids=ids).logits[0, mask_position].double().softmax(-1)
        weight.copy_(saved_weight)

    (head,) = [each for each in effects.heads if each.name == "L0H2"]
    expected = float((answers_before * (answers_before / answers_after).log()).sum()) / log(2)
    assert (effects.measured, effects.tokens, effects.answer_position) == (
        "answers",
        (mask_position,),
        mask_position,
    )
    assert head.mean == pytest.approx(expected, rel=1e-3)
    assert head.likely == pytest.approx(float(answers_after[answers_before.argmax()]), rel=1e-4)
    assert bool(head.other_answer) == (int(answers_after.argmax()) != int(answers_before.argmax()))
    assert effects.likely == pytest.approx(float(answers_before.max()), rel=1e-5)


def test_of_how_many_heads_an_answer_needs_each_is_counted(small_transformer: Saved) -> None:
    inspection = inspect(TEXT, model=str(small_transformer("gpt2")), by="effect")
    others = sum(bool(each.other_answer) for each in inspection.effects.heads)
    sentences = " ".join(effect_sentences(inspection))
    expected = {
        0: "switching off any one of these heads does not change that",
        1: "only 1 of the 8 heads changes that when it is switched off",
        8: "switching off any of the 8 heads, one at a time, changes that",
    }
    expected_for_several = f"switching off {others} of the 8 heads, one at a time, changes that"
    assert expected.get(others, expected_for_several) in sentences
    assert f"the answers at {len(inspection.trace.tokens)} tokens change on average by" in sentences


def test_no_answer_diverges_from_itself() -> None:
    shares = torch.rand(3, 7).log_softmax(-1)
    assert_close(divergence_bits(shares, shares), torch.zeros(3))
    even, uneven = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.25, 0.75]]).log()
    assert float(divergence_bits(even, uneven)) == pytest.approx(0.5 + 0.5 * log(2 / 3, 2))


def test_heads_that_are_off_stay_off(small_transformer: Saved) -> None:
    folder = str(small_transformer("gpt2"))
    inspection = inspect(TEXT, model=folder, by="effect", without="L1H1")
    by_name = {each.name: each.mean for each in inspection.effects.heads}
    assert len(by_name) == 7
    assert "L1H1" not in by_name
    assert by_name["L1H0"] > 0


def test_bars_are_in_the_order_of_the_ranking(minilm_inspection: Inspection) -> None:
    bars = ranked_effects(minilm_inspection)
    assert bars.grid.rows.labels == tuple(each.name for each in minilm_inspection.effects.heads)
    assert bars.grid.values[:, 0].tolist() == [
        each.mean for each in minilm_inspection.effects.heads
    ]
    assert bars.full_length >= bars.grid.values.max()


def test_data_hold_every_head(minilm_inspection: Inspection, tmp_path: Path) -> None:
    view = minilm_inspection.view()
    rows = list(csv.DictReader(io.StringIO(view.render(".csv").decode())))
    assert [row["name"] for row in rows] == [each.name for each in minilm_inspection.effects.heads]
    assert float(rows[0]["change"]) == pytest.approx(minilm_inspection.effects.heads[0].mean)
    stored_effects = json.loads(view.render(".json"))["inspection"]["effects"]
    assert stored_effects["measured"] == "vectors"
    assert len(stored_effects["heads"]) == 12


def test_what_would_take_too_long_is_refused_before_it_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(effects, "MAX_WAIT_SECONDS", 0)
    with pytest.raises(AttnvizError, match=r"each of 12 heads in turn would take about 0 minutes"):
        ranked_effects(inspect(SHORT_TEXT, layer=5, by="effect"))


def test_heads_that_are_off_already_are_not_ranked() -> None:
    inspection = inspect(SHORT_TEXT, layer=5, by="effect", without="L5H11")
    assert len(inspection.effects.heads) == 11
    top_head = inspection.effects.heads[0]
    assert next(iter(effect_sentences(inspection))).startswith(
        f"with {top_head.name} zeroed as well, the"
    )
    with pytest.raises(AttnvizError, match="switches off the heads, but L5H11 is already off"):
        inspect(SHORT_TEXT, layer=5, head=11, by="effect", without="L5H11").view()
    closing = inspect(SHORT_TEXT, layer=5, head=11, without="L5H11").view().closing
    assert any(each.startswith("L5H11 is switched off: its output is") for each in closing)


def test_only_the_heads_of_a_transformer_can_be_switched_off_in_turn(attnviz: Attnviz) -> None:
    result = attnviz("inspect", "the key", "--model", "agreement", "--by", "effect")
    assert result.err == (
        "error: --by effect switches off the heads of a trained transformer, but this is not "
        "one\n"
        " hint: use attnviz heads --model agreement to rank the heads of this model\n"
    )


def test_of_a_model_that_answers_nothing_no_other_command_is_named(attnviz: Attnviz) -> None:
    result = attnviz("inspect", "the dog", "--model", "toy", "--by", "effect")
    assert result.err.endswith("give a transformer: --model minilm, a folder, or a name on a hub\n")


def test_the_command_ranks_them(attnviz: Attnviz) -> None:
    result = attnviz("inspect", SHORT_TEXT, "--by", "effect", "--layer", "5")
    assert "how much the last vectors change with each head zeroed (share of their" in result.out
    assert "the most of 12 heads" in " ".join(result.out.split())
