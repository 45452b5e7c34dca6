"""Names of models, and the paths that they stand for; does not import torch."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path

from attnviz.errors import cmd, model_error, opt, unknown_name_error
from attnviz.wording.keywords import with_checked_arguments

MODELS_FOLDER = Path(__file__).parent
CONFIG_FILE = "config.json"  # of a folder with a trained model
HAND_WRITTEN_SUFFIX = ".toml"
COURSE_MODELS = ("toy", "reverse", "sort", "induction", "brackets", "agreement", "pronouns")
MINILM, SMOLLM2 = "minilm", "smollm2"  # in packages of their own: see WEIGHTS_PACKAGES
PACKAGED_TRANSFORMERS = (MINILM, SMOLLM2)
CHECK_PATH_HINT = f"check its path, or use one that comes with attnviz: {', '.join(COURSE_MODELS)}"
HUB_OWNERS = {  # of well-known models
    **dict.fromkeys(("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"), "openai-community"),
    "distilgpt2": "distilbert",
    **dict.fromkeys(("distilbert-base-uncased", "distilbert-base-cased"), "distilbert"),
    **dict.fromkeys(("bert-base-uncased", "bert-base-cased", "bert-large-uncased"), "google-bert"),
    "bert-base-multilingual-cased": "google-bert",
    **dict.fromkeys(("roberta-base", "roberta-large", "xlm-roberta-base"), "FacebookAI"),
    "albert-base-v2": "albert",
    **dict.fromkeys(("t5-small", "t5-base"), "google-t5"),
}
SHORT_HUB_NAMES = {
    "gpt-2": "gpt2",
    "bert": "bert-base-uncased",
    "distilbert": "distilbert-base-uncased",
    "roberta": "roberta-base",
    "t5": "t5-small",
}
OTHER_MODELS_HINT = "or a folder with a model in it; or owner/name of a model on a hub"
LEARN_SAVE_HINT = f"{cmd.learn:TASK --save FOLDER} writes one"


@cache
def _shipped_paths() -> dict[str, Path]:
    """Return the path of each model that comes with attnviz, by the model's name.

    Those of the lessons come first, in the order of the lessons.
    """
    learned = {path.parent.name: path.parent for path in MODELS_FOLDER.glob(f"*/{CONFIG_FILE}")}
    paths = learned | {path.stem: path for path in MODELS_FOLDER.glob(f"*{HAND_WRITTEN_SUFFIX}")}
    order = {name: index for index, name in enumerate(COURSE_MODELS)}
    return dict(sorted(paths.items(), key=lambda item: (order.get(item[0], len(order)), item[0])))


def shipped_names() -> tuple[str, ...]:
    return tuple(_shipped_paths())


@with_checked_arguments
def models() -> tuple[str, ...]:
    """Return the names of the models that need no path: `trace("I am", model="toy")`.

    They come with attnviz, except "minilm" and "smollm2", which are packages of their own.

    >>> from attnviz import models
    >>> models()[:3]
    ('toy', 'reverse', 'sort')
    """
    return (*shipped_names(), *PACKAGED_TRANSFORMERS)


def find_model_path(name: str) -> Path:
    """Return the folder of a model that attnviz trained, or the .toml file of one written by hand.

    `name` is that of a model that comes with attnviz, or a path. Refuses any other name; what the
    folder or file contains is not checked.
    """
    if name in _shipped_paths():
        return _shipped_paths()[name]
    path, is_written = Path(name), name.endswith(HAND_WRITTEN_SUFFIX)
    with suppress(OSError, ValueError):  # too long a name, or one with a zero byte
        if name and (path.is_dir() or (is_written and path.is_file())):
            return path
    full_name = SHORT_HUB_NAMES.get(name.lower(), name)
    if full_name in HUB_OWNERS:
        hint = f"use its full name on the hub: {opt.model:{HUB_OWNERS[full_name]}/{full_name}}"
        raise model_error(f"there is no model '{name}'", hint)
    if is_written:
        problem = f"there is no file '{name}' with a model"
        raise model_error(problem, CHECK_PATH_HINT)
    if path.name == name:
        error = unknown_name_error("model", name, (*shipped_names(), *PACKAGED_TRANSFORMERS))
        raise model_error(str(error), f"{error.hint}; {OTHER_MODELS_HINT}")
    raise model_error(f"there is no folder '{name}' with a model", LEARN_SAVE_HINT)
