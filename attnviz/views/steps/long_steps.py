"""The steps of one query of a long text: its top keys, and what the others add."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from attnviz.cells import StoredCells, unmasked_cells
from attnviz.errors import AttnvizError, opt
from attnviz.heads.side import label_at, token_side
from attnviz.tokens.tokens import Tokens
from attnviz.traces.long_rows import layer_of_queries
from attnviz.traces.weights import Stage, tensor_to_numpy
from attnviz.views.even_spread import even_words
from attnviz.views.grids.axes import Axis, plain_axis
from attnviz.views.grids.grid import Grid
from attnviz.views.grids.scales import centred_scale, colorless_scale, weight_scale
from attnviz.views.grids.section import Section, with_one_scale
from attnviz.views.heads.data import token_columns
from attnviz.views.heads.passages import counted_text, passage, quoted_label
from attnviz.views.steps import score_steps, step_sums
from attnviz.views.steps.scene import DIGITS_RANGE, Scene
from attnviz.views.steps.step_selection import STEPS
from attnviz.views.view import HEAD_COLUMNS, TableData, TableLines, head_cells
from attnviz.wording.numbers import percent_text
from attnviz.wording.sums import MAX_UNSHIFTED_SCORE, Sum
from attnviz.wording.words import counted

MOST_ATTENDED_KEYS = 6  # that are written out, beside the query itself and the token before it
ROW_DATA_COLUMNS = (*HEAD_COLUMNS, "key number", "key", "scaled score", "weight")


def long_steps_error() -> AttnvizError:
    """Return the error that the steps of a long text are those of one token, and none is named."""
    return AttnvizError(
        "every number of a long text is too many to show: its steps are those of one token",
        f"name a token by its number: {opt.query:1}",
        python_hint="name a token by its position: query=0",
    )


@dataclass(frozen=True, eq=False)
class LongScene(Scene):
    """One query of a long text: `layer` has its row alone."""

    position: int  # of the query
    chosen_key: int | None  # the only key that is written out

    @property
    def query_position(self) -> int:
        return self.position

    @property
    def query_name(self) -> str:
        return self.token_name(self.trace.tokens, self.position)

    def token_name(self, tokens: Tokens, position: int) -> str:
        """Return a token's label with its number in front: `70001 it`."""
        return f"{position + 1} {label_at(tokens, position)}"

    @cached_property
    def written_keys(self) -> Sequence[int]:
        """The keys that the query attends to most in the first shown head, itself and the token
        before it; only that of --key if there is one.
        """
        if self.chosen_key is not None:
            return [self.chosen_key]
        weights = self.weights_row(self.written_heads[0])
        most = np.argsort(-weights, kind="stable")[:MOST_ATTENDED_KEYS].tolist()
        reads_itself = self.keys is self.trace.tokens
        beside = [self.position - 1, self.position] if reads_itself and self.position else []
        own = [self.position] if reads_itself else []
        return sorted({*(key for key in most if weights[key] > 0), *beside, *own} or {0})

    def weights_row(self, head: int) -> Float[np.ndarray, "key"]:
        return np.array(self.stage_row("weights", head))

    @cached_property
    def is_visible(self) -> Bool[np.ndarray, "key"]:
        """Whether the query may attend to each key, in any head."""
        visible = self.layer.visible
        in_heads = visible[:, 0] if visible.ndim == 3 else visible
        return tensor_to_numpy(in_heads.any(0))

    @cached_property
    def read_keys(self) -> list[int]:
        return [key for key in self.written_keys if self.is_visible[key]]

    @property
    def visible_count(self) -> int:
        return int(self.is_visible.sum())

    @property
    def unwritten_count(self) -> int:
        """How many visible keys are not written out."""
        return self.visible_count - len(self.visible_keys)

    def key_axis(self, title: str = "key (is read)") -> Axis:
        """Return the written keys as an axis, with their numbers in the text."""
        numbers = tuple(str(key + 1) for key in self.written_keys)
        labels = tuple(label_at(self.keys, key) for key in self.written_keys)
        nothing = (False,) * len(labels)
        return Axis(title, "token", labels, numbers, nothing, special=nothing)

    @property
    def query_axis(self) -> Axis:
        label, number = label_at(self.trace.tokens, self.position), str(self.position + 1)
        return Axis("query (reads)", "token", (label,), (number,), (False,), special=(False,))

    def score_grids(self, name: str, stage: Stage, note: str = "") -> tuple[Grid, ...]:
        """Return the numbers of the written keys at a stage as a table for each shown head."""
        grids = []
        for head in self.shown_heads:
            patch = self.layer.weights.cells(stage, head).row(0)
            keys = [*self.written_keys]
            cells = StoredCells(patch.values[:, keys], patch.hidden[:, keys])
            is_weight = stage == "weights"
            scale = weight_scale(cells) if is_weight else centred_scale("score", cells)
            grids.append(
                Grid(
                    self.head_title(name, head),
                    self.query_axis,
                    self.key_axis(),
                    cells,
                    scale,
                    decimals=self.options.digits,
                )
            )
        return tuple(grids)

    @cached_property
    def unwritten_remark(self) -> str:
        """How many keys are left out, and what share of the weight those shown have."""
        if not self.unwritten_count:
            return ""
        head = self.written_heads[0]
        share = float(self.weights_row(head)[[*self.written_keys]].sum())
        where = f" in head {head}" if self.layer.heads > 1 else ""
        shown = counted(len(self.written_keys), "key")
        return (
            f"written out: {shown} with {percent_text(share, 1)} of the weight{where}; "
            f"{counted(self.unwritten_count, 'other visible key')} together have the rest"
        )


def long_sections(scene: Scene) -> list[Section]:
    """Return the steps of the followed query of a long text."""
    position = scene.followed_query
    options = replace(scene.options, query=0, key=None)  # the only row of the layer
    layer, key = layer_of_queries(scene.layer, [position]), scene.options.key
    row = LongScene(scene.trace, layer, options, position=position, chosen_key=key)
    sections = [
        _tokens_step(row),
        _vectors_step(row),
        *score_steps.scores_step(row),
        *score_steps.scaling_step(row),
        *score_steps.soft_cap_step(row),
        *score_steps.alibi_step(row),
        _mask_step(row),
    ]
    if row.visible_count:
        fine = _with_digits_of_weights(row)
        sections += [_softmax_step(fine), _weighted_values_step(fine), _context_step(fine)]
    return with_one_scale(sections)


def _with_digits_of_weights(scene: LongScene) -> LongScene:
    """Return the scene with so many digits that the largest weight has two."""
    heads = scene.written_heads
    largest = max(float(scene.weights_row(head)[[*scene.written_keys]].max()) for head in heads)
    needed = 1 - math.floor(math.log10(largest)) if largest else 0
    digits = min(max(scene.options.digits, needed), DIGITS_RANGE[1])
    return replace(scene, options=replace(scene.options, digits=digits))


def _tokens_step(scene: LongScene) -> Section:
    """Return the step with the query in its passage, and the ids of the keys that are shown."""
    ids = np.array([[scene.keys.ids[key]] for key in scene.written_keys])
    count, text = len(scene.trace.tokens), passage(scene.trace.tokens, scene.position)
    return Section(
        *STEPS["tokens"],
        about=f"The text is split into {counted_text(count)}, each with an id. Followed is the "
        f"token in brackets: {text}",
        shapes=f"tokens [{count}]",
        grids=(
            Grid(
                "tokens",
                scene.key_axis("token"),
                plain_axis("", ["id"]),
                unmasked_cells(ids),
                colorless_scale("id"),
            ),
        ),
        remarks=(scene.unwritten_remark,) if scene.unwritten_remark else (),
    )


def _vectors_step(scene: LongScene) -> Section:
    """Return the step with the query's vector, and the keys and values that are shown."""
    layer, keys = scene.layer, [*scene.written_keys]
    assert layer.queries is not None
    assert layer.keys is not None
    axis = scene.key_axis("key")
    grids = (
        *scene.head_grids("queries", layer.queries, scene.query_axis, side="width"),
        *scene.head_grids("keys", layer.keys[:, keys], axis, side="width"),
        *scene.head_grids("values", layer.values[:, keys], axis, side="head_value"),
    )
    kinds = ("queries", layer.queries), ("keys", layer.keys), ("values", layer.values)
    return Section(
        *STEPS["queries"],
        about="The token searches with its query; each token is found by its key, and passes on "
        "its value.",
        shapes=" · ".join(f"{name} {scene.size_text(vectors)}" for name, vectors in kinds),
        grids=grids,
    )


def _mask_step(scene: LongScene) -> Section:
    """Return the step with what the mask hides from the query."""
    visible, count, name = scene.visible_count, len(scene.keys), scene.query_name
    if not visible:
        about = f"Every key is masked: {name} attends to nothing, and its context vector is 0."
    elif visible == count:
        about = f"Nothing is masked: {name} may attend to all {count:,} keys."
    else:
        about = f"{name} may attend to {visible:,} of {count:,} keys; the scores of the others "
        about += "become −∞, since exp(−∞) = 0."
    return Section(
        *STEPS["mask"],
        about=about,
        shapes=f"visible {scene.size_text(scene.layer.visible)}",
        sums=step_sums.mask_sums(scene, scene.layer),
    )


def _softmax_step(scene: LongScene) -> Section:
    """Return the step from scores to weights: one sum of exponentials, and a quotient for each
    key.
    """
    written: list[Sum] = []
    for head in scene.written_heads:
        logits = np.array(scene.stage_row("masked scores", head), dtype=float)
        keys = [key for key in scene.visible_keys if np.isfinite(logits[key])]
        shown = logits[keys].tolist()
        largest = float(np.abs(logits[np.isfinite(logits)]).max())
        style = scene.style
        shift = style.rounded(float(logits.max())) if largest > MAX_UNSHIFTED_SCORE else 0.0
        exponentials = np.exp(logits - shift)
        total, suffix = float(exponentials.sum()), scene.head_suffix(head)
        others = np.delete(exponentials, keys)
        writer, rest = scene.write(f"sum{suffix}({scene.query_name})"), float(others.sum())
        written.append(writer.exponential_total(shown, rest, shift, total))
        weights = scene.weights_row(head)
        for index, key in enumerate(keys):
            writer = scene.write(f"weight{suffix}{scene.cell_name(key)}")
            weight = float(weights[key])
            written.append(writer.exponential_share(shown, index, shift, total, weight))
    others_text = counted(scene.unwritten_count, "other key")
    remarks = scene.unwritten_remark, f"the last term of the sum: {others_text} together"
    return Section(
        *STEPS["softmax"],
        about="The softmax turns scores into weights: exp(score) divided by the sum of all "
        f"exp(score) of the {counted(scene.visible_count, 'visible key')}. "
        "The weights sum to 1.",
        shapes=f"weights {scene.weights_size_text}",
        formula="weight = exp(score) / sum of exp(scores in its row)",
        tex=r"w_{ij} = \frac{e^{S_{ij}}}{\sum_k e^{S_{ik}}}",
        grids=scene.score_grids("weights", "weights"),
        sums=tuple(written),
        remarks=remarks if scene.unwritten_count else (),
        finding=row_finding(scene),
    )


def row_finding(scene: LongScene) -> str:
    """Return what the query attends to most, in the first shown head."""
    head = scene.written_heads[0]
    weights = scene.weights_row(head)
    top, name = int(weights.argmax()), quoted_label(scene.trace.tokens, scene.position)
    where = f" in head {head}" if scene.layer.heads > 1 else ""
    share, even = float(weights[top]), 1 / max(1, scene.visible_count)
    key = f"{quoted_label(scene.keys, top)} (token {top + 1:,})"
    gives = f"{name} (token {scene.position + 1:,}) gives {key} {percent_text(share, 1)}"
    return f"{gives} of its attention{where}, {even_words(share, even)}"


def _weighted_values_step(scene: LongScene) -> Section:
    """Return the step with the value of each key that is shown times its weight."""
    axis = scene.key_axis("key")
    weighted = scene.weighted_values[:, [*scene.written_keys]]
    return Section(
        *STEPS["weighted"],
        about=f"Each value is multiplied by its weight: this is what {scene.query_name} takes from "
        "each token.",
        shapes=f"values {scene.size_text(scene.layer.values)}",
        formula=f"weighted = weights of {scene.query_name} · V",
        tex=r"w_{ij} \, v_j",
        grids=scene.head_grids(
            "weighted values", weighted, axis, side="head_value", scale="weighted"
        ),
        sums=step_sums.weighted_value_sums(scene, scene.layer),
    )


def _context_step(scene: LongScene) -> Section:
    """Return the step that adds up the weighted values of all keys, those not shown as one."""
    layer, written = scene.layer, list[Sum]()
    for head in scene.written_heads:
        writer = scene.write(f"context{scene.head_suffix(head)}({scene.query_name})")
        result = layer.attended.contexts[head, 0].tolist()
        if head in layer.off:
            written.append(writer.vector_alone(result))
            continue
        weights, values = layer.attended.weights[head, 0], layer.values_of_heads[head]
        keys = [*scene.visible_keys]
        terms, vectors = weights[keys].tolist(), values[keys].tolist()
        others = weights.clone()
        others[keys] = 0
        if rest := float(others.sum()):
            terms.append(rest)
            vectors.append((others @ values / rest).tolist())
        written.append(writer.weighted_vectors(terms, vectors, result, shares=True))
    grids = scene.head_grids(
        "context vectors", layer.attended.contexts, scene.query_axis, side="head_value"
    )
    others_text = counted(scene.unwritten_count, "other key")
    last = f"the last term: {others_text}, with the sum of their weights and the mean of their "
    last += "values by weight"
    return Section(
        *STEPS["context"],
        about="The weighted values of all keys add up to the context vector: everything that the "
        "token has read.",
        shapes=f"weights {scene.weights_size_text} → context "
        f"{scene.size_text(layer.attended.contexts)}",
        formula="context = weights V",
        tex=r"C = W V",
        grids=grids,
        sums=tuple(written),
        remarks=(last,) if scene.unwritten_count else (),
    )


def long_row_data(scene: Scene) -> TableData:
    """Return the scores and weights of the followed query on all keys as data."""
    position = scene.followed_query
    layer = layer_of_queries(scene.layer, [position])
    scores = tensor_to_numpy(layer.attended.scaled_scores[:, 0])
    weights = tensor_to_numpy(layer.attended.weights[:, 0])

    def document() -> Mapping[str, Any]:
        return {
            "tokens": {"ids": np.array(scene.keys.ids), "count": len(scene.keys)},
            "query": position + 1,
            "scaled_scores": scores,
            "weights": weights,
            "context": tensor_to_numpy(layer.attended.contexts[:, 0]),
        }

    def lines() -> Iterator[TableLines]:
        words = token_columns(token_side(scene.keys))
        for head, columns in enumerate(zip(scores, weights, strict=True)):
            yield TableLines(head_cells(layer.head_name(head)), words, columns)

    return TableData("long-row", document, ROW_DATA_COLUMNS, lines)
