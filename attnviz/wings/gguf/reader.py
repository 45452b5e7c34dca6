"""Checks a GGUF file before anything is loaded, and loads the model in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from attnviz.traces.trained.model_location import ModelLocation, refuse_weights_beyond_memory
from attnviz.traces.trained.refusals import quiet_transformers
from attnviz.wings.gguf.config import find_architecture
from attnviz.wings.gguf.file import read_gguf
from attnviz.wings.gguf.tokenizer import build_tokenizer, refuse_unusable_vocabulary

if TYPE_CHECKING:
    from attnviz.traces.trained.loading import LoadedTransformer


def refuse_unusable_file(file: Path) -> None:
    """Refuse a GGUF file that is damaged or incomplete, or whose kind of model or vocabulary is not
    known."""
    header = read_gguf(file)
    find_architecture(header).config(header)
    refuse_unusable_vocabulary(header)


def load_file(location: ModelLocation, file: Path, dtype: str, device: str) -> LoadedTransformer:
    """Load a GGUF file; refuse one that is damaged, too large, or of an unknown kind of model."""
    refuse_unusable_file(file)  # before transformers is imported
    header = read_gguf(file)
    refuse_weights_beyond_memory(location, dtype)

    import torch  # for which checks need not wait

    from attnviz.traces.trained.loading import LoadedTransformer

    with quiet_transformers():
        from attnviz.wings.gguf.model import build_model, tensor_name_in_file

        tokenizer = build_tokenizer(header)  # first: it costs less to refuse
        model = build_model(header, getattr(torch, dtype))
    model, known = model.eval().requires_grad_(False).to(device), find_architecture(header).names
    return LoadedTransformer(
        location.name,
        model,
        tokenizer,
        header.stored_as,
        dtype,
        names_in_file={
            name: tensor_name_in_file(name, known) for name, _ in model.named_parameters()
        },
    )
