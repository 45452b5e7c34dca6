"""What the settings line says of a trained transformer is true of the model itself."""

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
from attnviz.traces.settings import Settings
from attnviz.traces.trained.loading import load_transformer
from attnviz.traces.trained.refusals import quiet_transformers
from attnviz.views.settings_line import settings_line
from tests.small_transformers import KINDS, KINDS_WITHOUT_CAPTURE, MORE_KINDS, Saved, save

TEXT = "The animal was too tired"
QUERIES = ("q_proj", "query", "q_lin", "q", "query_proj")
KEYS = ("k_proj", "key", "k_lin", "k", "key_proj")
# Where scores cannot be told from projections: these are in one matrix, normed, capped.
OTHERWISE = {
    "gpt2 scaled by layer": "scores times 0.25 in layer 1",  # by its config also 1 / (layer + 1)
    "gemma3": "scores times 0.0625",  # 1 / √256, its config's query_pre_attn_scalar
}


class Own:
    """What a model itself makes of a text, with eager attention and nothing of ours."""

    def __init__(self, folder: Path, ids: tuple[int, ...]) -> None:
        loading = load_transformer(Settings(model=str(folder)))
        self.config, part = loading.text_config, loading.model.base_model
        self.queries: Tensor | None = None
        self.keys: Tensor | None = None
        if loading.config.is_encoder_decoder:
            part = loading.model.get_encoder()
        hooks = [*self._hooks(part)]
        with quiet_transformers(), torch.no_grad(), untold_positions(part):
            found = part(input_ids=torch.tensor([ids]), output_attentions=True).attentions
        for each in hooks:
            each.remove()
        self.weights = [each[0] for each in found if each is not None]
        self.heads = self.weights[0].shape[0]

    def _hooks(self, part: nn.Module) -> Iterator[Any]:
        for name, module in part.named_modules():
            last = name.rpartition(".")[2]
            if isinstance(module, nn.Linear) and last in QUERIES:
                yield module.register_forward_hook(self._keep("queries"))
            if isinstance(module, nn.Linear) and last in KEYS:
                yield module.register_forward_hook(self._keep("keys"))

    def _keep(self, name: str) -> Any:
        def keep(module: nn.Module, args: Any, made: Tensor) -> None:
            if getattr(self, name) is None:  # the first layer's
                setattr(self, name, made[0])

        return keep

    @property
    def factor(self) -> float | None:
        """What scores are, over products of the first layer's projections, if that is one number.

        Of a row of weights the logarithms are its scores, but for a number that all of them share.
        """
        if self.queries is None or self.keys is None:
            return None
        width = self.queries.shape[-1] // self.heads
        queries, keys = (each.view(len(each), -1, width).transpose(0, 1).double()
                         for each in (self.queries, self.keys))  # fmt: skip
        products = queries @ keys.repeat_interleave(self.heads // len(keys), 0).transpose(1, 2)
        seen = self.weights[0] > 1e-30
        scores = self.weights[0].double().log().masked_fill(~seen, 0)
        count = seen.sum(-1, keepdim=True)
        products, scores = (
            (each - (each * seen).sum(-1, keepdim=True) / count) * seen
            for each in (products, scores)
        )
        found = float((products * scores).sum() / (products * products).sum())
        return found if float((products * found - scores).abs().max()) < 1e-3 else None

    def sees(self, layer: int) -> list[list[bool]]:
        """Who reads whom in any head: what a mask hides has a weight of 0."""
        found: list[list[bool]] = (self.weights[layer] > 0).any(0).tolist()
        return found


@contextmanager
def untold_positions(part: nn.Module) -> Iterator[None]:
    """Nothing is turned, and nothing is added to scores by distance."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tensor, "cos", lambda angles: torch.ones_like(angles))
        patch.setattr(Tensor, "sin", lambda angles: torch.zeros_like(angles))
        for name, module in part.named_modules():
            if name.endswith("relative_attention_bias"):
                patch.setattr(module, "forward", nothing_of(module))
        yield


def nothing_of(module: Any) -> Any:
    return lambda places: torch.zeros(*places.shape, module.embedding_dim)


def put(factor: float, width: int) -> str:
    """What is said of such a factor."""
    if abs(factor * width**0.5 - 1) < 1e-4:
        return ""
    return "not scaled" if abs(factor - 1) < 1e-4 else f"scores times {factor:.3g}"


def reach(sees: list[list[bool]]) -> str:
    """What is said of who reads whom, cell by cell."""
    cells = [(query, key, seen) for query, row in enumerate(sees) for key, seen in enumerate(row)]
    causal = not any(seen for query, key, seen in cells if key > query)
    if all(seen for query, key, seen in cells if key <= query or not causal):
        return ""
    for size in range(1, len(sees)):
        near = [(abs(query - key) < size) for query, key, _ in cells]
        piece = [(query // size == key // size) for query, key, _ in cells]
        for kind, allowed in ((f"window {size}", near), (f"chunks of {size}", piece)):
            wanted = [a and (key <= query or not causal) for a, (query, key, _) in
                      zip(allowed, cells, strict=True)]  # fmt: skip
            if wanted == [seen for *_, seen in cells]:
                return kind
    return ""  # in a way that has no name


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", KINDS | MORE_KINDS | KINDS_WITHOUT_CAPTURE)
def test_every_settings_line_is_true_of_the_model(name: str, small_transformer: Saved) -> None:
    folder = small_transformer(name)
    made = trace(TEXT, model=str(folder))
    own, line = Own(folder, made.tokens.ids), settings_line(made)
    parts, numbers = line.split(" · "), [each.layer for each in made.layers]
    card = made.trained
    assert card is not None

    width = own.queries.shape[-1] // own.heads if own.queries is not None else None
    told = re.search(r"(\d+) layers? × (\d+) heads?(?: of width (\d+))?", line)
    assert told is not None
    assert (int(told[1]), int(told[2])) == (len(own.weights), own.heads)
    assert (told[3] is None) == card.fallback
    assert told[3] is None or width is None or int(told[3]) == width

    if own.keys is not None and width is not None and not card.fallback:
        groups = own.keys.shape[-1] // width
        assert (f"{groups} key-value heads" in parts) == (groups < own.heads)

    scaling = " · ".join(each for each in parts if each.startswith(("not scaled", "scores times")))
    factor = own.factor
    if card.fallback:
        assert scaling == ""
    elif factor is not None:
        assert scaling == put(factor, made.layers[0].head_dim)
    else:
        assert scaling == OTHERWISE.get(name, "")

    sees = {number: own.sees(place) for place, number in enumerate(numbers)}
    ahead = [row[place + 1 :] for each in sees.values() for place, row in enumerate(each)]
    assert ("causal" in parts) == (not any(map(any, ahead)))
    everything = all(all(map(all, each)) for each in sees.values())
    assert ("all tokens visible" in parts) == everything
    far = {number: reach(each) for number, each in sees.items()}
    said = {
        number: next((each for each in parts if covers(each, number)), "") for number in numbers
    }
    assert {number: each.partition(" in ")[0] for number, each in said.items()} == far

    cap = getattr(own.config, "attn_logit_softcapping", None)
    assert (f"soft cap {cap}" in parts) == bool(cap)
    assert not any(each.startswith("soft cap") for each in parts) or cap


def covers(part: str, number: int) -> bool:
    """Whether it is about how far this layer sees."""
    _, _, layers = part.partition(" in layer")
    narrow = part.startswith(("window", "chunks"))
    return narrow and (not layers or str(number) in re.findall(r"\d+", layers))


@pytest.mark.parametrize(
    ("name", "changes", "layer", "said"),
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
    name: str, changes: dict[str, Any], layer: int | None, said: str, tmp_path: Path
) -> None:
    folder = str(save((KINDS | MORE_KINDS)[name], tmp_path / "model", **changes))

    assert said in settings_line(
        trace(TEXT, model=folder, kept=None if layer is None else (layer,))
    )
