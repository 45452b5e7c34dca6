"""The words that options accept, as types."""

from __future__ import annotations

from typing import Literal

ScoreKind = Literal["dot", "additive"]
Positions = Literal["none", "sinusoidal", "learned", "rotary", "rotary-halves", "alibi"]
Dtype = Literal["float32", "float64", "bfloat16", "float16"]
NormPlacement = Literal["post", "pre", "none"]
Activation = Literal["relu", "gelu", "gelu-tanh"]
AttentionKind = Literal["self", "decoder", "cross"]  # self: of an encoder, or the only one
Pool = Literal["mean", "max"]
AblationValue = Literal["zero", "mean"]  # replaces the context vectors of an ablated head
Weigh = Literal["weight", "norm", "gradient"]
Merge = Literal["mean", "max", "rollout"]
By = Literal["pattern", "effect"]
Rank = Literal["lift", "weight"]
Draw = Literal["heatmap", "arcs", "sentence"]
