"""Long texts in trained models: no table of every token with every other, for all heads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attnviz import cells, inspect
from attnviz.traces.trained import again, heard
from tests.small_transformers import KINDS, save

TOKENS = 240
TEXT = "the animal was too tired " * TOKENS
VIEWS: dict[str, dict[str, Any]] = {
    "all heads": {},
    "one head": {"layer": 1, "head": 2},
    "one token": {"query": "150"},
    "one weight": {"source": "150", "to": "12"},
    "in words": {"layer": 1, "head": 2, "words": True},
    "merged": {"layer": 1, "merge": "mean"},
}


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Listens to every operation of torch: how large is what comes out?"""

    numbers: int = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        for each in made if isinstance(made, tuple | list) else [made]:
            if isinstance(each, torch.Tensor) and each.is_floating_point():
                self.numbers = max(self.numbers, each.numel())
        return made


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two layers of a few heads, with positions enough."""
    folder = tmp_path_factory.mktemp("models") / "long"
    return save(KINDS["llama"], folder, max_position_embeddings=TOKENS)


@pytest.mark.filterwarnings("ignore:left out")
@pytest.mark.parametrize("name", VIEWS)
def test_no_view_makes_a_table_of_all_tokens_for_all_heads(
    decoder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most one of a single head, where all of it is asked for."""
    for each in (again, heard, cells):  # as if the text were longer
        monkeypatch.setattr(each, "CELLS_AT_ONCE", 2**13)
    with Largest() as largest:  # type: ignore[no-untyped-call]
        looked_at = inspect(TEXT, model=str(decoder), truncate=True, **VIEWS[name])
        looked_at.view().render(".txt")

    assert len(looked_at.trace.tokens) == TOKENS
    assert 2**12 < largest.numbers <= TOKENS**2
