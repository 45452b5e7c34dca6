"""A model in a folder: its numbers as safetensors, what is chosen and its words as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from attnviz.errors import AttnvizError
from attnviz.traces.facts import of_their_types
from attnviz.traces.matrices import Matrices
from attnviz.traces.models.model import Model, of_layer, unembedding_of
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.parts import GIVEN_NAMES
from attnviz.traces.settings import Settings
from attnviz.version import __version__

NUMBERS, CONFIG, VOCABULARY = "model.safetensors", "config.json", "vocabulary.json"
FORMAT = 1
SAID = ("name", "about", "longest", "dimensions", "heads", "facts")  # of a Model


def contents(model: Model) -> dict[str, bytes]:
    """The files of a model, by name; the same model is the same bytes."""
    from safetensors.torch import save

    numbers = {name: each.detach().contiguous().cpu() for name, each in model.parameters.items()}
    config = {
        "format": FORMAT,
        "attnviz": __version__,
        **{name: getattr(model, name) for name in SAID},
        "settings": asdict(model.settings),
    }
    return {
        NUMBERS: save(numbers),
        CONFIG: _as_json(config),
        VOCABULARY: _as_json(asdict(model.vocabulary)),
    }


def read(folder: Path) -> Model:
    """The model that `attnviz learn … --save FOLDER` wrote."""
    config, words = _json(folder / CONFIG), _json(folder / VOCABULARY)
    named = _tensors(folder / NUMBERS)
    settings = of_their_types(Settings, config["settings"])
    layers = range(1, settings.layers or 1)
    above = tuple(_matrices(of_layer(named, number)) for number in layers)
    own = {name: each for name, each in named.items() if name in GIVEN_NAMES}
    said: dict[str, Any] = {name: config[name] for name in SAID}
    said["dimensions"] = tuple(said["dimensions"])
    return Model(
        **said,
        settings=settings,
        vocabulary=_vocabulary(words),
        embeddings=named["embeddings"],
        matrices=_matrices({k: v for k, v in own.items() if k != "embeddings"}, above),
        unembedding=unembedding_of(named) if "w_answers" in named else None,
    )


def _matrices(named: Mapping[str, Tensor], above: tuple[Matrices, ...] = ()) -> Matrices:
    tensors: dict[str, Any] = {**named}
    return Matrices(**tensors, above=above)


def _vocabulary(words: Mapping[str, Any]) -> Vocabulary:
    lists = {name: tuple(each) for name, each in words.items() if isinstance(each, list)}
    return Vocabulary(**{**words, **lists})


def _tensors(path: Path) -> dict[str, Tensor]:
    from safetensors.torch import load

    try:
        return load(path.read_bytes())
    except OSError:
        raise AttnvizError(
            f"there is no model in '{path.parent}': it has no {path.name}",
            "attnviz learn reverse --save FOLDER writes one",
        ) from None


def _json(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise AttnvizError(
            f"there is no model in '{path.parent}': it has no {path.name}",
            "attnviz learn reverse --save FOLDER writes one",
        ) from None
    return found


def _as_json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode()
