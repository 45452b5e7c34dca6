"""A model before it learns: every number drawn from a seed, as large as the textbooks have it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnviz.attention.block import Norm
from attnviz.learning.task import Task
from attnviz.traces.matrices import Matrices
from attnviz.traces.models.model import Model, Unembedding
from attnviz.traces.plan import Plan, planned
from attnviz.traces.settings import Settings
from attnviz.vectors import positions
from attnviz.vectors.drawn import Seeds


def fresh(task: Task, settings: Settings) -> Model:
    """Matrices N(0, 1/inputs), vectors N(0, 1): queries and keys of variance 1, scores of d_k."""
    seeds, dim = Seeds((settings.seed,)), settings.width
    plan = planned(settings, Matrices(), dim)
    words = task.vocabulary
    made = [_of_layer(plan, number, dim) for number in range(settings.layers or 1)]
    if settings.positions == "learned":
        made[0]["positions"] = positions.learned(task.longest, dim, seeds)
    first, *above = map(_matrices, made)
    norm = Norm(torch.ones(dim), torch.zeros(dim)) if settings.norm == "pre" else None
    return Model(
        name=task.name,
        about=task.about,
        settings=settings,
        vocabulary=words,
        embeddings=seeds.embed(range(len(words.words)), dim).float(),
        matrices=_with_layers(first, above),
        unembedding=Unembedding(
            norm=norm, w_answers=seeds.projection("w_answers", dim, len(words.answers)).float()
        ),
        longest=task.longest if settings.positions == "learned" else None,
    )


def _with_layers(first: Matrices, above: list[Matrices]) -> Matrices:
    return replace(first, above=tuple(above))


def _matrices(named: dict[str, Tensor]) -> Matrices:
    in_float32: dict[str, Any] = {name: each.float() for name, each in named.items()}
    return Matrices(**in_float32)


def _of_layer(plan: Plan, number: int, dim: int) -> dict[str, Tensor]:
    """The matrices of one layer, by their names; gains are 1, and whatever is added is 0."""
    stream = f"L{number} " if number else ""
    variant, seeds, width = plan.variant, plan.seeds, plan.width or 1
    shapes = _shapes_of_attention(plan, dim)
    if plan.settings.feeds:
        wide = plan.hidden_width(dim)
        shapes |= {"w_1": (dim, wide), "w_2": (wide, dim)}
    found: dict[str, Any] = {
        name: seeds.projection(f"{stream}{name}", *shape) for name, shape in shapes.items()
    }
    if variant.additive:
        found["w_score"] = seeds.projection(f"{stream}w_score", width, variant.heads).T.flatten()
    if plan.settings.feeds:
        found |= {"b_1": torch.zeros(wide), "b_2": torch.zeros(dim)}
    if plan.settings.blocks and plan.settings.norm != "none":
        for name in ("attention", "feed_forward")[: 2 if plan.settings.feeds else 1]:
            found |= {f"{name}_gain": torch.ones(dim), f"{name}_shift": torch.zeros(dim)}
    return found


def _shapes_of_attention(plan: Plan, dim: int) -> dict[str, tuple[int, int]]:
    """Of the matrices that a variant has: embeddings that are compared themselves have none."""
    variant, width = plan.variant, plan.width or 1
    groups = variant.kv_heads or variant.heads
    found: dict[str, tuple[int, int]] = {}
    if variant.projected:
        found |= {
            "w_query": (dim, variant.heads * width),
            "w_key": (dim, groups * width),
            "w_value": (dim, groups * plan.value_width),
        }
    if variant.joined:
        found["w_out"] = (variant.heads * plan.value_width, dim)
    return found
