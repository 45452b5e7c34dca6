"""Random models to name: those that come with attnviz, folders, files, damaged ones."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import torch

from attnviz.traces.models import folder
from attnviz.traces.models.model_names import find_model_path, shipped_names
from attnviz.traces.models.shipped import load_card
from attnviz.traces.models.vocabulary import Vocabulary
from attnviz.traces.trained.refusals import quiet_transformers
from tests.gguf.files import GPT2_TOKENIZER, write_model
from tests.hostile import words
from tests.hostile.damage import damage_file
from tests.small_transformers import EVERY, save
from tests.untrained import untrained_model

SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"predicts": "next", "asks": ""},
    {"heads": 2, "kv_heads": 1, "positions": "rotary"},
    {"attention_only": True, "positions": "learned", "norm": "post"},
    {"layers": 1, "positions": "alibi", "variant": "causal"},
    {"layers": 3, "norm": "none", "feed_forward": 3, "scoring": "additive"},
)
TOY = "toy"
TRAINED = ("gpt2", "llama", "gemma2", "gpt-oss", "jamba", "bert", "bert", "distilbert", "t5",
           "bart", "bloom", "mamba")  # fmt: skip


GGUF_SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
GGUF_FACTS: dict[str, Any] = {
    "embedding_length": 32,
    "feed_forward_length": 32,
    "block_count": 2,
    "head_count": 4,
    "head_count_kv": 2,
    "context_length": 64,
    "layer_norm_rms_eps": 1e-6,
    "chat_template": "{{ messages[0].content }}",
}
CHAT_TEMPLATES = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}answer:",
    "{{ messages[0].content }}",
    "{% if false %}x{% endif %}",
    "{{ messages[9].content }}",
    "{{ raise_exception(messages[0].content) }}",
    "{{ ''.__class__.__mro__ }}{{ cycler.__init__.__globals__.os }}",
    "{% for",
    "{{ messages | tojson }}\x1b[31m\u202e",
    "{{ 'the ' * 3000000 }}",
    "{{ (['x' * 1000000] * 100000) | join }}",
)


@dataclass(frozen=True)
class NamedModel:
    """The name of a model, its files, and the words that it knows."""

    name: str
    files: dict[str, bytes]
    vocabulary: Vocabulary | None = None  # None: it reads whatever there is
    transformer: bool = False

    def text(self, random: Random) -> str:
        if self.vocabulary is None:
            return words.text(random)
        count = random.choice((1, 2, 4, 6, 8, 8, 8, 9, 20))
        between = "" if self.vocabulary.tokenizer == "chars" else " "
        return between.join(random.choices(self.vocabulary.words, k=count))


def random_model(random: Random, *, trained: float = 0.25) -> NamedModel:
    """A model, mostly undamaged; a transformer with the chance `trained`."""
    if random.random() < trained:
        return _random_transformer(random)
    kind = random.random()
    if kind < 0.6:
        name = random.choice(shipped_names())
        return NamedModel(name, {}, _vocabulary(name))
    return _random_written_model(random) if kind < 0.75 else _random_folder(random)


@cache
def _vocabulary(name: str) -> Vocabulary:
    return load_card(name).vocabulary


def _random_written_model(random: Random) -> NamedModel:
    content = find_model_path(TOY).read_bytes()
    content = content if random.random() < 0.25 else damage_file(".toml", content, random)
    return NamedModel("mine.toml", {"mine.toml": content}, _vocabulary(TOY))


@cache
def _untrained_files(shape: int) -> tuple[Vocabulary, dict[str, bytes]]:
    model = untrained_model(**SHAPES[shape])
    return model.vocabulary, folder.model_files(model)


def _random_folder(random: Random) -> NamedModel:
    vocabulary, undamaged = _untrained_files(random.randrange(len(SHAPES)))
    files = dict(undamaged)
    if random.random() < 0.6:
        name = random.choice([*files])
        files[name] = damage_file(name, files[name], random)
        if random.random() < 0.05:
            del files[name]
    return NamedModel(
        "mine", {f"mine/{name}": content for name, content in files.items()}, vocabulary
    )


@cache
def transformer_files(name: str) -> dict[str, bytes]:
    """The files of a small transformer of this kind."""
    with tempfile.TemporaryDirectory() as at:
        folder = save(EVERY[name], Path(at))
        return {path.name: path.read_bytes() for path in folder.iterdir()}


@cache
def gguf_file() -> bytes:
    """A small llama as a GGUF file, with a chat template."""
    tokens = GPT2_TOKENIZER.get_vocab_size()
    torch.manual_seed(7)
    with quiet_transformers(), tempfile.TemporaryDirectory() as at:
        from transformers import LlamaConfig, LlamaForCausalLM

        config: Any = LlamaConfig(**GGUF_SIZES, vocab_size=tokens, tie_word_embeddings=False)
        model: Any = LlamaForCausalLM(config)
        return write_model(Path(at, "small.gguf"), model, "llama", GGUF_FACTS).read_bytes()


@cache
def chatting_files() -> dict[str, bytes]:
    """The files of a small llama with a chat template and a generation config."""
    files = dict(transformer_files("llama"))
    generation = {"max_new_tokens": 2, "do_sample": True, "eos_token_id": [0, 1], "num_beams": 2}
    files["generation_config.json"] = json.dumps(generation).encode()
    files["chat_template.jinja"] = CHAT_TEMPLATES[0].encode()
    return files


def chatting_model(random: Random) -> NamedModel:
    """A model with a chat template, which may be odd, or with odd rules of generation."""
    if random.random() < 0.3:
        content = gguf_file()
        content = content if random.random() < 0.5 else damage_file("small.gguf", content, random)
        return NamedModel("small.gguf", {"small.gguf": content}, None, True)
    files = dict(chatting_files())
    files["chat_template.jinja"] = random.choice(CHAT_TEMPLATES).encode()
    if random.random() < 0.4:
        name = random.choice(("generation_config.json", "tokenizer.json", "tokenizer_config.json"))
        files[name] = damage_file(name, files[name], random)
    return NamedModel("chatting", {f"chatting/{name}": each for name, each in files.items()})


def _random_transformer(random: Random) -> NamedModel:
    """MiniLM, or a small one of another kind, now and then with a file that is damaged."""
    if random.random() < 0.3:
        return NamedModel("minilm", {}, transformer=True)
    if random.random() < 0.1:
        return chatting_model(random)
    files = dict(transformer_files(random.choice(TRAINED)))
    if random.random() < 0.2:
        name = random.choice([*files])
        files[name] = damage_file(name, files[name], random)
        if random.random() < 0.2:
            del files[name]
    return NamedModel(
        "trained", {f"trained/{name}": each for name, each in files.items()}, None, True
    )
