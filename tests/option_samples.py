"""For every option a sample value, and the context in which it means something."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

from tests.hostile.calls import Call
from tests.hostile.ending import run_call
from tests.hostile.models import chatting_files
from tests.small_transformers import EVERY, save

Value = str | bool | tuple[str, ...] | None  # of an option; None: it is left out
Given = dict[str, Any]  # such values by the names of the options
KEYS_PRESSED = "keys pressed"  # in `explore`
NO = "--no-…"  # of a flag that can be switched off by name
PLAIN = "plain"


@dataclass(frozen=True)
class Sample:
    """A value of an option other than its default (None: that of its context), and a context.

    `other` is a second value, for where the first one happens to change nothing.
    """

    value: Value
    context: str = PLAIN
    other: Value = None


# Files and folders, which `@/` stands for.


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()  # which goes when the process ends


def with_paths(word: str) -> str:
    """A word with the path of the file or folder that it names after `@/`, made when it is first
    needed."""
    match = re.match(r"@/([\w.-]+)", word)
    return word if match is None else str(_path(match[1])) + word[match.end() :]


@cache
def _path(name: str) -> Path:
    path = Path(_folder().name, name)
    content = FILES[name]
    if isinstance(content, str):
        path.write_text(content, "utf-8")
    else:
        content(path)
    return path


def _save_transformer(name: str) -> Callable[[Path], object]:
    return lambda path: save(EVERY[name], path)


def _save_chatting_model(path: Path) -> None:
    path.mkdir()
    for name, content in chatting_files().items():
        (path / name).write_bytes(content)


def _save_checkpoints(path: Path) -> None:
    save(EVERY["bert"], path / "checkpoint-1")
    save(EVERY["bert"], path / "checkpoint-2", intermediate_size=20)


def _save_training(path: Path) -> None:
    run_call(Call(("learn", "reverse", "--steps", "1", "--save", str(path))))


def _save_trace(*arguments: str) -> Callable[[Path], object]:
    def save_trace(path: Path) -> None:
        run_call(Call(("run", *map(with_paths, arguments), "--out", str(path))))

    return save_trace


PROGRAM = """
import torch

def first(x):
    torch.nn.functional.scaled_dot_product_attention(x, x, x)

def second(x):
    torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)

x = torch.randn(2, 2, 3, 4, generator=torch.Generator().manual_seed(0)) * 2
for factor in range(1, 7):
    first(x * factor)
    second(x * factor)
"""

FILES: Mapping[str, str | Callable[[Path], object]] = {
    "bert": _save_transformer("bert"),
    "tiny": lambda path: save(EVERY["bert"], path, num_attention_heads=2),
    "gpt2": _save_transformer("gpt2"),
    "bart": _save_transformer("bart"),
    "chatting": _save_chatting_model,
    "run": _save_checkpoints,
    "training": _save_training,
    "text.txt": "You are there\n",
    "attend.py": PROGRAM,
    "other.py": PROGRAM.replace("3, 4", "4, 3"),
    "labels.txt": "I\nam\nhere\n",
    "texts.txt": "the animal\n\nit was tired\nthe street\n\nthe street was too\n\nit did\n",
    "long.txt": "the animal was " * 40,
    "example.toml": 'title = "Two layers"\ntext = "I am"\n[settings]\ndim = 4\nlayers = 2\n',
    "wide.toml": 'title = "Wide"\ntext = "I am"\n[settings]\ndim = 64\n',
    "asking.txt": "the animal was [MASK]\n\nit was [MASK]\n",
    "pairs.tsv": "".join(
        f"the animal did cross the street because it was {first}\tthe animal did cross the street "
        f"because it was {second}\tit\tanimal\tstreet\n"
        for first, second in combinations(("too", "cross", "because", "tire", "was", "did"), 2)
    ),
    "lines.txt": "a b c\nb c a\nc a b\n" * 10,
    "numbers.toml": 'tokens = ["I", "am", "here"]\nqueries = [[1, 2], [3, 4], [0, 1]]\n'
    "keys = [[1, 0], [2, 1], [1, 1]]\nvalues = [[1, 0], [0, 1], [2, 2]]\n",
    "batch.toml": 'axes = ["item", "token", "width"]\n'
    "queries = [[[1, 2], [3, 4], [1, 1]], [[0, 1], [2, -1], [1, 0]]]\n"
    "keys = [[[1, 0], [2, 1], [0, 1]], [[1, 1], [2, 3], [1, 2]]]\n"
    "values = [[[1], [2], [3]], [[3], [4], [5]]]\n",
    "lesson.toml": '[[texts]]\ntext = "the animal did not cross the street"\n',
    "vectors.txt": "I 1 2 3 4 5 6 7 8\nam 3 1 2 5 4 7 8 6\n",
    "trace.npz": _save_trace("You are there"),
    "other.npz": _save_trace("You are there", "--seed", "7"),
    "trained.npz": _save_trace("the animal was", "--model", "@/bert"),
}

# What is given on every call of a command, in every context.

TRAINED = {"model": "@/tiny", "text": "the animal was tired"}
BASES: Mapping[str, Given] = {
    "run": {"text": "I am here"},
    "compare": {"text": "I am here", "repeats": "2"},
    "steps": {"text": "I am here"},
    "inspect": TRAINED,
    "explore": {"text": "I am here"},
    "survey": {"file": "@/texts.txt", "model": "@/tiny"},
    "pairs": {"file": "@/pairs.tsv", "model": "@/tiny"},
    "quiz": {"texts": "the animal did not cross the street because it was", "heads": "4"},
    "learn": {"task": "reverse", "steps": "1", "dim": "8", "batch": "4"},
    "heads": {"model": "agreement"},
    "show": {"name": "simplified"},
    "check": {"names": "simplified"},
    "listen": {"program": ("@/attend.py",)},
}

# In which contexts options are tried.

SENTENCE = {"text": "the animal was", "repeats": None}
SENTENCES = {**SENTENCE, "other": "the street was"}
LEARNING = {
    **{"learn": "reverse", "text": None, "steps": "1", "by": "heads", "values": "1,2"},
    **{"dim": "8", "batch": "4"},
}
PROMPT = "the animal was. it was tired. it"
SMALL = {"model": "agreement", "text": "the old keys"}
CONTEXTS: Mapping[str, Mapping[str, Given]] = {
    "every": {
        "plain": {},
        "picture": {"out": "x.svg"},
        "slide": {"out": "x.svg", "size": "16:9"},
        "raster": {"out": "x.png"},
        "page": {"out": "x.html"},
        "json": {"json": True},
        "wide": {"dim": "64"},
        "two heads": {"heads": "2"},
        "rotary": {"positions": "rotary"},
        "blocks": {"layers": "2"},
        "words": {"tokenizer": "words"},
        "matrices": {"given": "@/numbers.toml", "text": None},
        "batch": {"given": "@/batch.toml", "text": None},
        "saved trace": {"trace": "@/trace.npz", "text": None},
        "file": {"file": "@/text.txt", "text": None},
        "stream": {"stream": True},
        "blocks of a map": {"stream": True, "resolution": "2"},
        "long text": {"text": " ".join(map(str, range(700)))},
        "small model": SMALL,
        "trained model": TRAINED,
        "causal model": {"model": "@/gpt2", "text": "the animal was"},
        "chatting model": {"model": "@/chatting", "text": "the animal was"},
        "encoder and decoder": {"model": "@/bart", "text": "the animal was"},
        "decoder": {"model": "@/bart", "text": "the animal was", "attention": "cross"},
        "text that is too long": {"model": "@/gpt2", "text": "the animal was " * 40},
        "followed token": {"query": "1"},
        "prompt": {"model": "@/gpt2", "text": PROMPT, "segments": "sentences"},
    },
    "steps": {
        "picture": {"out": "x.svg", "step": "scores,softmax"},
        "slide": {"out": "x.svg", "size": "16:9", "step": "scores,softmax"},
        "raster": {"out": "x.png", "step": "scores,softmax"},
        "film": {"out": "x.gif", "step": "softmax"},
    },
    "show": {
        "picture": {"out": "x.svg", "step": "scores,softmax"},
        "slide": {"out": "x.svg", "size": "16:9", "step": "scores,softmax"},
        "raster": {"out": "x.png", "step": "scores,softmax"},
        "film": {"out": "x.gif", "step": "softmax"},
        "batch": {"name": "journey-causal-batch"},
        "two heads": {"name": "journey-multi-head"},
        "two layers": {"name": "@/example.toml"},
        "wide": {"name": "@/wide.toml"},
    },
    "explore": {
        "blocks": {"layers": "2", KEYS_PRESSED: ("o",)},
        "two heads": {"heads": "2", KEYS_PRESSED: ("o",)},
        "written page": {"heads": "2", KEYS_PRESSED: ("w", "ctrl+u", *"x.html", "enter")},
    },
    "survey": {"trained model": {"model": "@/bert"}},
    "compare": {
        "followed token": {"query": "1", "by": "mask"},
        "mask": {"by": "mask"},
        "learning": LEARNING,
        "blocks": {**LEARNING, "feed_forward": "8"},
        "checkpoints": {"checkpoints": "@/run/checkpoint-*", **SENTENCE},
        "heads": {"by": "heads"},
        "two sentences": {**SENTENCES, "model": "@/bert"},
        "prompt": {
            **{"model": "@/gpt2", "text": PROMPT, "other": "it slept. it was", "repeats": None},
            "segments": "sentences",
        },
        "trained model": {**SENTENCES, "model": "@/bert"},
        "two models": {"model": ("@/bert", "@/run/checkpoint-2"), **SENTENCE},
        "two traces": {"trace": ("@/trace.npz", "@/other.npz"), "text": None, "repeats": None},
        "causal model": {**SENTENCES, "model": "@/gpt2"},
        "chatting model": {**SENTENCES, "model": "@/chatting"},
        "encoder and decoder": {**SENTENCES, "model": "@/bart"},
        "decoder": {**SENTENCES, "model": "@/bart", "attention": "cross"},
        "text that is too long": {
            "model": "@/gpt2",
            "text": "the animal was " * 40,
            "other": "a b " * 60,
            "repeats": None,
        },
        "small model": {**SMALL, "by": "mask"},
    },
    "inspect": {
        "picture of a head": {"out": "x.svg", "layer": "0", "head": "0"},
        "one head": {"layer": "0", "head": "0"},
        "stream": {"layer": "0", "head": "0", "stream": True},
        "blocks of a map": {"layer": "0", "head": "0", "stream": True, "resolution": "2"},
        "link": {"source": "the", "to": "animal"},
        "effect": {"by": "effect"},
        "hidden tokens": {"hide_first": True},
        "toward": {
            "by": "effect",
            "text": "the animal was [MASK]",
            "toward": "the",
            "instead_of": "it",
        },
        "saved trace": {"trace": "@/trained.npz", "text": None, "model": None},
        "corpus": {"texts": "@/texts.txt", "text": None, "by": "effect"},
        "sentences": {"text": "the animal was. it was tired"},
    },
    "listen": {"many calls": {"calls": "4"}},
    "heads": {
        "corpus": {"texts": "@/texts.txt", "model": "@/tiny"},
        "toward": {"texts": "@/asking.txt", "model": "@/tiny", "toward": "the", "instead_of": "it"},
        "causal model": {"texts": "@/texts.txt", "model": "@/gpt2"},
        "text that is too long": {"texts": "@/long.txt", "model": "@/gpt2"},
        "decoder": {"texts": "@/texts.txt", "model": "@/bart", "attention": "cross"},
        "chatting model": {"texts": "@/texts.txt", "model": "@/chatting"},
        "encoder and decoder": {"texts": "@/texts.txt", "model": "@/bart"},
    },
    "quiz": {
        "rotary": {"positions": "rotary", "heads": "2"},
        "picture": {"out": "x.pdf", "questions": "3"},
        "slide": {"out": "x.pdf", "questions": "3"},
        "raster": {"out": "x.pdf", "questions": "3"},
        "lesson": {"texts": "@/lesson.toml", "heads": None},
        "small model": {
            "model": "agreement",
            "texts": "the old keys near the small cabinet",
            "heads": None,
        },
    },
    "learn": {
        "lines": {"file": "@/lines.txt", "task": None},
        "training": {"from_": "@/training", "steps": "2", "task": None, "dim": None, "batch": None},
        "feed-forward": {"feed_forward": "8"},
    },
}

SAMPLES: Mapping[str, Sample] = {
    "text": Sample("You are there"),
    "file": Sample(None, "file"),
    "tokenizer": Sample("chars"),
    "trace": Sample(None, "saved trace"),
    "model": Sample(None, "small model"),
    "attention": Sample("cross", "encoder and decoder"),
    "target": Sample("the street", "decoder"),
    "generate": Sample("1", "causal model"),
    "chat": Sample(True, "chatting model"),
    "truncate": Sample(True, "text that is too long"),
    "trust_remote_code": Sample(True, "trained model"),
    "variant": Sample("causal", other="plain"),
    "dim": Sample("4", other="16"),
    "heads": Sample("2", other="4"),
    "kv_heads": Sample("1", "two heads"),
    "head_dim": Sample("4", other="2"),
    "scoring": Sample("additive"),
    "scale": Sample(NO, other=True),
    "causal": Sample(True, other=NO),
    "window": Sample("2", other="1"),
    "temperature": Sample("0.5", other="0.01"),
    "soft_cap": Sample("1", other="0.1"),
    "dropout": Sample("0.5", other="0.9"),
    "positions": Sample("sinusoidal", other="alibi"),
    "position_base": Sample("10", "rotary"),
    "embeddings": Sample("@/vectors.txt", "words"),
    "seed": Sample("7", other="1"),
    "device": Sample("cpu"),
    "dtype": Sample("float64"),
    "given": Sample(None, "matrices"),
    "item": Sample("2", "batch"),
    "layers": Sample("2", other="3"),
    "norm": Sample("pre", "blocks", other="none"),
    "activation": Sample("gelu", "blocks"),
    "feed_forward": Sample("3", "blocks", other="9"),
    "attention_only": Sample(True, "blocks"),
    "memory": Sample("You are"),
    "without": Sample("L0H0"),
    "segments": Sample(None, "prompt"),
    "document": Sample(("@/text.txt",), "prompt"),
    "without_segment": Sample("1", "prompt"),
    "stream": Sample(True),
    "memory_budget": Sample("1200KB", "long text"),
    "resolution": Sample("2", "stream"),
    "pool": Sample("max", "blocks of a map"),
    "log": Sample(True, "stream"),
    "part": Sample("1:1"),
    "show": Sample("scores"),
    "as_": Sample("arcs", "picture"),
    "predict": Sample(True, "small model"),
    "verify": Sample(True),
    "query": Sample("1", other="2"),
    "out": Sample(None, "picture"),
    "json": Sample(True),
    "full": Sample(True, "wide"),
    "quiet": Sample(True, "picture"),
    "no_pager": Sample(True),
    "limit": Sample("5B", "file"),
    "live": Sample(True, "page"),
    "theme": Sample("dark", "picture"),
    "size": Sample("4x3", "picture", other="square"),
    "dpi": Sample("50", "raster"),
    "transparent": Sample(True, "picture"),
    "colors": Sample("greys", "picture"),
    "text_size": Sample("large", "slide", other="small"),
    "points": Sample("8", "picture"),
    "font": Sample("serif", "picture"),
    "footnote": Sample(True, "slide", other=NO),
    "title": Sample("T"),
    "numbers": Sample(NO),
    "vectors": Sample(NO, "page"),
    "help_all": Sample(True),
    "rules": Sample(True),
    # compare
    "other": Sample("You are there"),
    "learn": Sample(None, "learning"),
    "checkpoints": Sample(None, "checkpoints"),
    "by": Sample("mask"),
    "values": Sample("1,4", "heads"),
    "reference": Sample("none", "mask"),
    "repeats": Sample("3"),
    "layer": Sample("0", "small model"),
    "head": Sample("0", "two sentences", other="1"),
    "mean": Sample(True, "two heads"),
    "curves": Sample(True, "heads"),
    "steps": Sample("2", "learning"),
    "until": Sample("0.01", "learning"),
    "batch": Sample("2", "learning"),
    "rate": Sample("0.5", "learning"),
    # steps
    "step": Sample("scores"),
    "key": Sample("1", "followed token"),
    "digits": Sample("3"),
    "seconds_per_step": Sample("0.5", "film"),
    # inspect
    "source": Sample(None, "link"),
    "to": Sample(None, "link"),
    "rank": Sample("weight", "link"),
    "merge": Sample("mean"),
    "weigh": Sample("norm"),
    "hide_special": Sample(True),
    "hide_first": Sample(True),
    "renormalise": Sample(True, "hidden tokens"),
    "words": Sample(True),
    "by_sentence": Sample(True, "sentences"),
    "texts": Sample(None, "corpus"),
    "toward": Sample(None, "toward"),
    "instead_of": Sample(None, "toward"),
    "ablation": Sample("mean", "corpus"),
    "pairs": Sample("2", "corpus"),
    # quiz
    "questions": Sample("3"),
    "kind": Sample("token", other="weight"),
    "answers": Sample(True),
    # learn
    "task": Sample("brackets"),
    "watch": Sample("h g f e d c b a"),
    "save": Sample("saved"),
    "from_": Sample(None, "training"),
    # the rest
    "name": Sample("dave"),
    "names": Sample("dave"),
}
OWN_SAMPLES: Mapping[str, Mapping[str, Sample]] = {
    "help": {"words": Sample("run")},
    "schema": {"kind": Sample("trace")},
    "compare": {
        "layers": Sample("2", "learning"),
        "norm": Sample("none", "blocks"),
        "scale": Sample(NO, "mask", other=True),
        "query": Sample(None, "followed token"),
        "memory_budget": Sample("10B"),
        "steps": Sample("2", "learning", other="3"),
        "batch": Sample("2", "learning"),
    },
    "steps": {
        "layer": Sample("1", "blocks"),
        "head": Sample("1", "two heads"),
        "stream": Sample(True, "followed token"),
        "memory_budget": Sample("10B"),
    },
    "inspect": {
        "memory_budget": Sample("10B"),
        "as_": Sample("arcs", "picture of a head"),
        "stream": Sample(True, "one head"),
        "numbers": Sample(NO, "one head"),
        "by": Sample(None, "effect"),
        "layer": Sample("1"),
        "head": Sample("1"),
        "model": Sample("@/gpt2"),
    },
    "explore": {"vectors": Sample(NO, "written page")},
    "listen": {
        "program": Sample(("@/other.py",)),
        "is_module": Sample(True),
        "calls": Sample("2"),
        "every": Sample("2", other="3"),
        "module": Sample("first*"),
        "keep": Sample("3kB", "many calls"),
        "labels": Sample("@/labels.txt", "page"),
        "item": Sample("2", "page"),
    },
    "survey": {
        "seed": Sample("7", "trained model"),
        "file": Sample("@/text.txt"),
        "model": Sample("@/gpt2"),
        "full": Sample(True),
    },
    "pairs": {
        "file": Sample("@/text.txt"),
        "model": Sample("@/gpt2"),
        "full": Sample(True),
        "colors": Sample("greys", "page"),
    },
    "quiz": {
        "texts": Sample("because it was the animal did not cross the street"),
        "heads": Sample("2", other="8"),
        "dim": Sample("16", other="4"),
        "tokenizer": Sample("words", other="chars"),
        "kv_heads": Sample("1", other="2"),
        "soft_cap": Sample("1.5", other="5"),
        "limit": Sample("5B", "lesson"),
    },
    "learn": {
        "file": Sample(None, "lines"),
        "tokenizer": Sample("chars", "lines"),
        "limit": Sample("10B", "lines"),
        "steps": Sample("2"),
        "until": Sample("0.01"),
        "batch": Sample("2"),
        "rate": Sample("0.5"),
        "feed_forward": Sample("8"),
        "activation": Sample("gelu", "feed-forward"),
        "attention_only": Sample(True, "lines"),
        "dim": Sample("4", other="16"),
        "norm": Sample("none"),
        "full": Sample(True),
    },
    "heads": {
        "model": Sample("brackets"),
        "task": Sample("brackets", other="reverse"),
        "target": Sample("the street", "decoder"),
        "layer": Sample("0", "corpus"),
        "head": Sample("0", "corpus"),
        "limit": Sample("10B", "corpus"),
        "trust_remote_code": Sample(True, "corpus"),
    },
    "show": {
        "layer": Sample("1", "two layers"),
        "head": Sample("1", "two heads"),
        "limit": Sample("10B"),
    },
    "check": {"limit": Sample("10B")},
}


def sample_of(command: str, option: str) -> Sample:
    """The sample of an option of a command; a KeyError names an option without one."""
    own = OWN_SAMPLES.get(command, {})
    return own[option] if option in own else SAMPLES[option]


def context_options(command: str, name: str) -> Given:
    """What is given in a context of a command, where it differs from what is always given."""
    own = CONTEXTS.get(command, {})
    return dict(own[name] if name in own else CONTEXTS["every"][name])
