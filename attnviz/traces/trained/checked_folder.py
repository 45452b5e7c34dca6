"""A copy of a model's small files for transformers, without names of other files.

Weights are read by attnviz itself.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from attnviz.errors import model_error
from attnviz.machine import files
from attnviz.machine.context_values import attribute_value
from attnviz.machine.environment import without_variables
from attnviz.machine.exit_handling import undo_on_signal
from attnviz.tokens.tokenizer_limits import (
    MAX_FILE_BYTES,
    ORIGINAL_HINT,
    read_limited,
    refuse_large_file,
    refuse_large_ids,
)
from attnviz.traces.models.model_names import CONFIG_FILE
from attnviz.traces.trained.model_location import TOKENIZER_PATTERNS, ModelLocation
from attnviz.traces.trained.refusals import reporting_load_errors

REWRITTEN_FILES = (CONFIG_FILE, "tokenizer_config.json", "special_tokens_map.json")
COPIED_PATTERNS = (
    *("*.json", "*.txt", "*.model", "*.spm", "*.bpe", "*.codes", "*.tokenizer", "*.tiktoken"),
    *("*.jinja", "additional_chat_templates/*.jinja"),
)
OTHER_FILES = re.compile(r".*(config|index)\.json")  # of processors, generation, weights
# Keys whose values are names of files, or what such a file holds; and such that may be numbers.
FILE_KEYS = re.compile(r"(.*_)?(files?|name_or_path|object|proto)|vocab|merges|init_inputs")
FILE_OR_NUMBER_KEYS = re.compile(r"(.*_)?(paths?|weights)")
KEPT_TABLES = ("added_tokens_decoder", "chat_template", "id2label", "label2id")
# Where tiktoken stores a copy of a vocabulary by the name of its file; "": nowhere. Otherwise it
# would take it for that of another model with the same name.
STORE_VARIABLE = "TIKTOKEN_CACHE_DIR"


@contextmanager
def checked_copy(location: ModelLocation) -> Iterator[ModelLocation]:
    """Give the place of a copy of a model's config, tokenizer and chat templates, inside the `with`
    block; large files are links.

    Refuses files of a tokenizer that are too large for one. Nothing of the vocabularies is stored
    between two runs.
    """
    folder = location.folder
    assert folder is not None
    with (
        tempfile.TemporaryDirectory(prefix="attnviz-") as name,
        undo_on_signal(partial(shutil.rmtree, name, ignore_errors=True)),
        without_variables(STORE_VARIABLE),
    ):
        os.environ[STORE_VARIABLE] = ""  # no file's name stands for that of another model
        with reporting_load_errors(location, "tokenizer"):
            _fill_copy(folder, Path(name))
        yield ModelLocation(location.name, Path(name))


def _fill_copy(folder: Path, copy: Path) -> None:
    for pattern in COPIED_PATTERNS:
        for path in filter(files.is_file, folder.glob(pattern)):
            place = copy / path.relative_to(folder)
            if path.name in REWRITTEN_FILES or any(map(path.match, TOKENIZER_PATTERNS)):
                refuse_large_file(path)
            elif path.stat().st_size > MAX_FILE_BYTES:  # of another purpose, such as a corpus
                continue
            refuse_large_ids(path)
            if path.name in REWRITTEN_FILES:
                place.write_text(json.dumps(without_file_names(json.loads(read_limited(path)))))
            elif not OTHER_FILES.fullmatch(path.name):
                place.parent.mkdir(exist_ok=True)
                try:
                    place.symlink_to(path.resolve())
                except OSError:  # Windows asks for a permission
                    shutil.copyfile(path, place)


def without_file_names(value: Any) -> Any:
    """Return the values of a config without those of keys that name files.

    >>> without_file_names({"vocab_file": "/a", "pad_token": "x", "part": {"merges": ["a b"]}})
    {'pad_token': 'x', 'part': {}}
    >>> without_file_names({"scale_weights": False, "residual_weights": [0.5, 1], "weights": "/a"})
    {'scale_weights': False, 'residual_weights': [0.5, 1]}
    """
    if isinstance(value, list):
        return [without_file_names(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: each if key in KEPT_TABLES else without_file_names(each)
        for key, each in value.items()
        if key in KEPT_TABLES or not _names_file(key, each)
    }


def _names_file(key: str, value: Any) -> bool:
    is_number = FILE_OR_NUMBER_KEYS.fullmatch(key) and _is_without_text(value)
    names = FILE_KEYS.fullmatch(key) or FILE_OR_NUMBER_KEYS.fullmatch(key)
    return names is not None and not is_number


def _is_without_text(value: Any) -> bool:
    """Return whether a value of JSON is a number, nothing, or a list of such: no name of a file."""
    is_list = isinstance(value, list)
    return all(map(_is_without_text, value)) if is_list else not isinstance(value, str | dict)


@contextmanager
def finding_tokenizers_alone(location: ModelLocation) -> Iterator[None]:
    """Refuse, inside the `with` block, a class that transformers finds by a name in a model's files
    and that is no tokenizer: it would build whatever the class is."""
    from transformers.models.auto import tokenization_auto

    find_class = tokenization_auto.tokenizer_class_from_name

    def find_tokenizer(name: str) -> Any:
        named = find_class(name)
        if named is None or _is_tokenizer(named):
            return named
        raise model_error(
            f"the files of '{location.name}' name '{name[:80]}' as the class of its tokenizer, "
            "but it is no tokenizer",
            ORIGINAL_HINT,
        )

    with attribute_value(tokenization_auto, "tokenizer_class_from_name", find_tokenizer):
        yield


def _is_tokenizer(named: object) -> bool:
    """Return whether this is the class of a tokenizer, or stands for one that needs another
    package, of which transformers says so."""
    from transformers import PreTrainedTokenizerBase
    from transformers.utils.import_utils import DummyObject

    is_class = isinstance(named, type) and issubclass(named, PreTrainedTokenizerBase)
    return is_class or isinstance(named, DummyObject)
