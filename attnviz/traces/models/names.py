"""Models by name, or by where they are: those that come with attnviz, and others; without torch."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from attnviz.errors import AttnvizError, unknown

HERE = Path(__file__).parent
CONFIG = "config.json"  # of a folder with a model that learned
BY_HAND = ".toml"  # how the file of one ends that was written
COURSE = ("toy", "reverse", "sort", "induction", "brackets", "agreement", "pronouns")  # the others
TRANSFORMER = "minilm"  # which comes in a wheel of its own: traces/trained/place.py finds it
CHECK = f"check its path, or use one that comes with attnviz: {', '.join(COURSE)}"
ON_THE_HUB = {  # names that people know, and their owners on the hub
    "gpt2": "openai-community",
    "gpt2-medium": "openai-community",
    "gpt2-large": "openai-community",
    "gpt2-xl": "openai-community",
    "distilgpt2": "distilbert",
    "distilbert-base-uncased": "distilbert",
    "distilbert-base-cased": "distilbert",
    "bert-base-uncased": "google-bert",
    "bert-base-cased": "google-bert",
    "bert-large-uncased": "google-bert",
    "bert-base-multilingual-cased": "google-bert",
    "roberta-base": "FacebookAI",
    "roberta-large": "FacebookAI",
    "xlm-roberta-base": "FacebookAI",
    "albert-base-v2": "albert",
    "t5-small": "google-t5",
    "t5-base": "google-t5",
}
IN_SHORT = {
    "gpt-2": "gpt2",
    "bert": "bert-base-uncased",
    "distilbert": "distilbert-base-uncased",
    "roberta": "roberta-base",
    "t5": "t5-small",
}
OTHERS = "or a folder with a model in it; or owner/name of a model on a hub"
WRITES_ONE = "attnviz learn TASK --save FOLDER writes one"


@cache
def _places() -> dict[str, Path]:
    """Those that come with attnviz, in the order of a course, each with where it is."""
    learned = {path.parent.name: path.parent for path in HERE.glob(f"*/{CONFIG}")}
    found = learned | {path.stem: path for path in HERE.glob(f"*{BY_HAND}")}
    order = {name: place for place, name in enumerate(COURSE)}
    return dict(sorted(found.items(), key=lambda each: (order.get(each[0], len(order)), each[0])))


def names() -> tuple[str, ...]:
    """Those that come with attnviz."""
    return tuple(_places())


def place_of(name: str) -> Path:
    """Where a model is: the folder of one that learned, or the file of one that was written."""
    if name in _places():
        return _places()[name]
    if name and _is_there(name):
        return Path(name)
    known = IN_SHORT.get(name.lower(), name)
    if known in ON_THE_HUB:
        hint = f"use its full name on the hub: --model {ON_THE_HUB[known]}/{known}"
        raise AttnvizError(f"there is no model '{name}'", hint, about="model")
    if Path(name).name == name and not name.endswith(BY_HAND):
        error = unknown("model", name, (*names(), TRANSFORMER), about="model")
        raise AttnvizError(str(error), f"{error.hint}; {OTHERS}", about="model")
    if name.endswith(BY_HAND):
        raise AttnvizError(f"there is no file '{name}' with a model", CHECK, about="model")
    raise AttnvizError(f"there is no folder '{name}' with a model", WRITES_ONE, about="model")


def _is_there(name: str) -> bool:
    try:
        return Path(name).is_dir() or (Path(name).is_file() and name.endswith(BY_HAND))
    except (OSError, ValueError):  # too long for a name, or with a zero byte
        return False
