"""The settings line is true of a trained transformer, and the same of a streamed text as ever."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnviz import trace
from attnviz.attention.variants import VARIANTS
from attnviz.traces.settings import (
    LONG_TEXT_SETTINGS,
    POSITIONS,
    TRAINED_ONLY_SETTINGS,
    Settings,
)
from attnviz.traces.trained.loading import load_transformer
from attnviz.traces.trained.refusals import quiet_transformers
from attnviz.views.settings_line import settings_line
from tests import not_none
from tests.small_transformers import KINDS, KINDS_WITHOUT_CAPTURE, MORE_KINDS, Saved, save

TEXT = "The animal was too tired"
QUERIES = ("q_proj", "query", "q_lin", "q", "query_proj")
KEYS = ("k_proj", "key", "k_lin", "k", "key_proj")
# Where scores do not follow from projections, which are in one matrix, normed or capped.
SCALINGS_FROM_CONFIG = {
    "gpt2 scaled by layer": "scores times 0.25 in layer 1",  # by its config also 1 / (layer + 1)
    "gemma3": "scores times 0.0625",  # 1 / √256, its config's query_pre_attn_scalar
}


class ModelRun:
    """A run of the model itself on a text, with eager attention and without attnviz's capture."""

    def __init__(self, folder: Path, ids: tuple[int, ...]) -> None:
        loading = load_transformer(Settings(model=str(folder)))
        self.config, part = loading.text_config, loading.model.base_model
        self.queries: Tensor | None = None
        self.keys: Tensor | None = None
        if loading.config.is_encoder_decoder:
            part = loading.model.get_encoder()
        hooks = [*self._hooks(part)]
        with quiet_transformers(), torch.no_grad(), without_positions(part):
            attentions = part(input_ids=torch.tensor([ids]), output_attentions=True).attentions
        for each in hooks:
            each.remove()
        self.weights = [each[0] for each in attentions if each is not None]
        self.heads = self.weights[0].shape[0]

    def _hooks(self, part: nn.Module) -> Iterator[Any]:
        for name, module in part.named_modules():
            last = name.rpartition(".")[2]
            if isinstance(module, nn.Linear) and last in QUERIES:
                yield module.register_forward_hook(self._store("queries"))
            if isinstance(module, nn.Linear) and last in KEYS:
                yield module.register_forward_hook(self._store("keys"))

    def _store(self, name: str) -> Any:
        def store(module: nn.Module, args: Any, output: Tensor) -> None:
            if getattr(self, name) is None:  # the first layer's
                setattr(self, name, output[0])

        return store

    @property
    def factor(self) -> float | None:
        """Scores divided by products of the first layer's projections, if that is one number.

        The logarithms of a row of weights are its scores minus a constant.
        """
        if self.queries is None or self.keys is None:
            return None
        width = self.queries.shape[-1] // self.heads
        queries, keys = (each.view(len(each), -1, width).transpose(0, 1).double()
                         for each in (self.queries, self.keys))  # fmt: skip
        products = queries @ keys.repeat_interleave(self.heads // len(keys), 0).transpose(1, 2)
        visible = self.weights[0] > 1e-30
        scores = self.weights[0].double().log().masked_fill(~visible, 0)
        count = visible.sum(-1, keepdim=True)
        products, scores = (
            (each - (each * visible).sum(-1, keepdim=True) / count) * visible
            for each in (products, scores)
        )
        factor = float((products * scores).sum() / (products * products).sum())
        return factor if float((products * factor - scores).abs().max()) < 1e-3 else None

    def visible_keys(self, layer: int) -> list[list[bool]]:
        """Which keys each query attends to in any head: what a mask hides has a weight of 0."""
        visible: list[list[bool]] = (self.weights[layer] > 0).any(0).tolist()
        return visible


@contextmanager
def without_positions(part: nn.Module) -> Iterator[None]:
    """Let rotary positions rotate nothing, and relative positions add nothing to scores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tensor, "cos", lambda angles: torch.ones_like(angles))
        patch.setattr(Tensor, "sin", lambda angles: torch.zeros_like(angles))
        for name, module in part.named_modules():
            if name.endswith("relative_attention_bias"):
                patch.setattr(module, "forward", zero_bias(module))
        yield


def zero_bias(module: Any) -> Any:
    return lambda places: torch.zeros(*places.shape, module.embedding_dim)


def scaling_words(factor: float, width: int) -> str:
    """The settings line's words on a factor of the scores."""
    if abs(factor * width**0.5 - 1) < 1e-4:
        return ""
    return "not scaled" if abs(factor - 1) < 1e-4 else f"scores times {factor:.3g}"


def reach_words(visible: list[list[bool]]) -> str:
    """The settings line's words on which keys are visible, found cell by cell."""
    cells = [
        (query, key, is_visible)
        for query, row in enumerate(visible)
        for key, is_visible in enumerate(row)
    ]
    causal = not any(is_visible for query, key, is_visible in cells if key > query)
    if all(is_visible for query, key, is_visible in cells if key <= query or not causal):
        return ""
    for size in range(1, len(visible)):
        in_window = [(abs(query - key) < size) for query, key, _ in cells]
        in_chunk = [(query // size == key // size) for query, key, _ in cells]
        for kind, allowed_cells in ((f"window {size}", in_window), (f"chunks of {size}", in_chunk)):
            expected = [
                is_allowed and (key <= query or not causal)
                for is_allowed, (query, key, _) in zip(allowed_cells, cells, strict=True)
            ]
            if expected == [is_visible for *_, is_visible in cells]:
                return kind
    return ""  # in a way that has no name


@pytest.mark.slow_table("models", keep=8)
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", KINDS | MORE_KINDS | KINDS_WITHOUT_CAPTURE)
def test_every_settings_line_is_true_of_the_model(name: str, small_transformer: Saved) -> None:
    folder = small_transformer(name)
    result = trace(TEXT, model=str(folder))
    model_run, line = ModelRun(folder, result.tokens.ids), settings_line(result)
    parts, numbers = line.split(" · "), [each.layer for each in result.layers]
    card = not_none(result.trained)

    width = (
        model_run.queries.shape[-1] // model_run.heads if model_run.queries is not None else None
    )
    size_match = not_none(re.search(r"(\d+) layers? × (\d+) heads?(?: of width (\d+))?", line))
    assert (int(size_match[1]), int(size_match[2])) == (len(model_run.weights), model_run.heads)
    assert (size_match[3] is None) == card.fallback
    assert size_match[3] is None or width is None or int(size_match[3]) == width

    if model_run.keys is not None and width is not None and not card.fallback:
        groups = model_run.keys.shape[-1] // width
        assert (f"{groups} key-value heads" in parts) == (groups < model_run.heads)

    scaling = " · ".join(each for each in parts if each.startswith(("not scaled", "scores times")))
    factor = model_run.factor
    if card.fallback:
        assert scaling == ""
    elif factor is not None:
        assert scaling == scaling_words(factor, result.layers[0].head_dim)
    else:
        assert scaling == SCALINGS_FROM_CONFIG.get(name, "")

    visible_by_layer = {
        number: model_run.visible_keys(place) for place, number in enumerate(numbers)
    }
    later_keys = [
        row[place + 1 :] for each in visible_by_layer.values() for place, row in enumerate(each)
    ]
    assert ("causal" in parts) == (not any(map(any, later_keys)))
    all_visible = all(all(map(all, each)) for each in visible_by_layer.values())
    assert ("all tokens visible" in parts) == all_visible
    reaches = {number: reach_words(each) for number, each in visible_by_layer.items()}
    limits_by_layer = {
        number: next((each for each in parts if covers(each, number)), "") for number in numbers
    }
    assert {
        number: each.partition(" in ")[0] for number, each in limits_by_layer.items()
    } == reaches

    cap = getattr(model_run.config, "attn_logit_softcapping", None)
    assert (f"soft cap {cap}" in parts) == bool(cap)
    assert not any(each.startswith("soft cap") for each in parts) or cap


def covers(part: str, number: int) -> bool:
    """Whether this part of the settings line says how far this layer sees."""
    _, _, layers = part.partition(" in layer")
    limits_reach = part.startswith(("window", "chunks"))
    return limits_reach and (not layers or str(number) in re.findall(r"\d+", layers))


@pytest.mark.slow_table("models", keep=2)
@pytest.mark.parametrize(
    ("name", "changes", "layer", "expected"),
    [
        ("gemma2", {"num_hidden_layers": 3}, None, "causal · window 5 in layers 0 and 2 · soft"),
        ("gemma2", {"num_hidden_layers": 3}, 2, "· causal · window 5 in layer 2 · soft"),
        ("gemma2", {"num_hidden_layers": 3}, 1, "· causal · soft"),
        ("qwen2", {"num_hidden_layers": 9}, None, "causal · window 4 in 8 of 9 layers · cpu"),
        ("llama4", {}, None, "causal · chunks of 6 in layer 0 · cpu"),
        ("mistral", {"sliding_window": 60}, None, "causal · cpu"),  # wider than the text
    ],
)
def test_the_layers_that_see_less_far_are_named(
    name: str, changes: dict[str, Any], layer: int | None, expected: str, tmp_path: Path
) -> None:
    folder = str(save((KINDS | MORE_KINDS)[name], tmp_path / "model", **changes))

    assert expected in settings_line(
        trace(TEXT, model=folder, kept=None if layer is None else (layer,))
    )


# A value of each setting that is not the default; those without one are about models and files.
CHANGED_SETTINGS: dict[str, dict[str, Any]] = {
    "tokenizer": {"tokenizer": "spaces"},
    **{f"variant {name}": {"variant": name} for name in VARIANTS},
    "dim": {"dim": 4},
    "heads": {"heads": 2},
    "kv_heads": {"heads": 4, "kv_heads": 2},
    "head_dim": {"head_dim": 4},
    "scoring": {"scoring": "additive"},
    "scale": {"scale": False},
    "causal": {"causal": True},
    "window": {"window": 2},
    "temperature": {"temperature": 0.5},
    "soft_cap": {"soft_cap": 5.0},
    **{f"positions {name}": {"positions": name} for name in POSITIONS},
    **{f"alibi {name}": {"positions": "alibi", **more} for name, more in (
        ("causal", {"variant": "causal"}), ("heads", {"heads": 2}), ("layers", {"layers": 2}),
    )},
    "position_base": {"positions": "rotary", "position_base": 500.0},
    "layers": {"layers": 2},
    "norm": {"layers": 1, "norm": "pre"},
    "activation": {"layers": 1, "activation": "gelu"},
    "feed_forward": {"layers": 1, "feed_forward": 4},
    "attention_only": {"layers": 1, "attention_only": True},
    "memory": {"memory": "he sleeps"},
    "without": {"heads": 2, "without": "L0H1"},
    "seed": {"seed": 7},
    "dtype": {"dtype": "float64"},
}  # fmt: skip
NOT_OF_STREAMED_TEXTS = {  # settings without a streamed text of attnviz's own
    *TRAINED_ONLY_SETTINGS, *LONG_TEXT_SETTINGS, "model", "dropout", "embeddings", "given", "item",
    "device",
}  # fmt: skip


def test_each_setting_of_a_streamed_text_is_tried() -> None:
    tried = {name for settings in CHANGED_SETTINGS.values() for name in settings}
    assert tried | NOT_OF_STREAMED_TEXTS == {*Settings.__dataclass_fields__}


@pytest.mark.parametrize("case", CHANGED_SETTINGS)
def test_a_streamed_text_names_its_settings_as_any_other(case: str) -> None:
    whole, streamed = (
        trace("she reads old books", stream=each, **CHANGED_SETTINGS[case])
        for each in (False, True)
    )

    assert settings_line(streamed) == settings_line(whole)
    assert settings_line(whole) in streamed.view().picture.caption
