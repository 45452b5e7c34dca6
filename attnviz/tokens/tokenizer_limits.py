"""Limits of tokenizers: how many letters they make of one, and how long they take.

A `Replace` of four rules can make 10¹² letters of one; a regular expression can take for ever.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from math import prod
from pathlib import Path
from typing import Any, TypeVar

from attnviz.errors import AttnvizError
from attnviz.machine.files import is_file
from attnviz.machine.memory import format_size

MAX_FILE_BYTES = 2**27  # the largest vocabularies, of a million tokens, take half of it
MAX_GROWTH = 1000  # letters of one; a composed letter may become 18, and rules double some of them
MAX_ADDED_TOKENS = 100  # to a text
MAX_SPECIAL_TOKENS = 10_000  # by name; the time to load them grows with their square
MAX_RULES = 200  # of each kind; each is applied to the whole text
MAX_TOKEN_ID = 2**24  # for which tables have a place, of a vocabulary of a million tokens
LETTER_TABLE = "precompiled_charsmap"  # of SentencePiece
REWRITING_PARTS = ("normalizer", "pre_tokenizer", "decoder")
MAX_DIGITS = 4000  # of which Python makes a number
RANKED_LINE = re.compile(rb"\s*[A-Za-z0-9+/]+=*\s+([+-]?[\d_]+)\s*")
BYTE_LETTERS = 4  # of one letter of UTF-8, as ByteLevel writes it
LEAST_WAIT, LETTERS_PER_SECOND = 20, 20_000  # a tenth of what a slow tokenizer does
ORIGINAL_HINT = "use the tokenizer of the original model"
Result = TypeVar("Result")


def refuse_growing_files(folder: Path, about: str = "model") -> None:
    """Refuse a folder with a tokenizer that makes far more of a text than it is; its rules are
    applied while it is loaded. `about`: the option that names the folder."""
    paths = [*sorted(folder.glob("tokenizer*.json")), folder / "special_tokens_map.json"]
    for path in filter(is_file, paths):  # a pipe may have no end
        with suppress(OSError, ValueError, RecursionError):  # transformers reports what is damaged
            refuse_growing_parts(json.loads(read_limited(path, about)), folder.name, about)


def read_limited(path: Path, about: str = "model") -> bytes:
    """Return the content of a tokenizer's file; refuse one that is too large."""
    refuse_large_file(path, about)
    return path.read_bytes()


def refuse_large_file(path: Path, about: str = "model") -> None:
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise AttnvizError(
            f"'{path}' has {format_size(size)}, more than a tokenizer may have "
            f"({format_size(MAX_FILE_BYTES)})",
            ORIGINAL_HINT,
            about=about,
        )


def refuse_large_ids(path: Path) -> None:
    """Refuse a tokenizer's file that gives a token such a large number that a table with a place
    for each number would fill the memory."""
    largest = 0
    with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
        largest = max(_token_numbers(path), default=0)  # transformers reports what is damaged
    if largest > MAX_TOKEN_ID:
        raise AttnvizError(
            f"'{path}' numbers or counts tokens above {MAX_TOKEN_ID:,}, which no vocabulary "
            "reaches",
            ORIGINAL_HINT,
            about="model",
        )


def _token_numbers(path: Path) -> Iterator[int]:
    """Yield the numbers that a tokenizer's file gives tokens, or of which it says how many there
    are."""
    if path.suffix in (".model", ".tiktoken"):
        yield from _ranks(path)
    elif path.name == "tekken.json":
        yield from _integers(json.loads(path.read_bytes())["config"])
    elif path.name == "added_tokens.json":
        yield from _integers(json.loads(path.read_bytes()))
    elif path.name == "tokenizer_config.json":
        yield from map(_integer, json.loads(path.read_bytes())["added_tokens_decoder"])


def _ranks(path: Path) -> Iterator[int]:
    """Yield the numbers in a vocabulary of tiktoken: lines of a token and its number."""
    for line in path.read_bytes().splitlines():
        if match := RANKED_LINE.fullmatch(line):
            yield _integer(match[1])


def _integers(value: Any) -> Iterator[int]:
    """Yield every number in a value of JSON, also where it is a text."""
    yield from (_integer(each) for each in _values(value) if isinstance(each, int | float | str))


def _integer(value: float | str | bytes) -> int:
    """Return a number or the number in a text; 0 of a text without one, and one that is too large
    if there is no end to it."""
    try:
        return int(value)
    except OverflowError:
        return MAX_TOKEN_ID + 1
    except ValueError:
        return MAX_TOKEN_ID + 1 if len(value) > MAX_DIGITS else 0  # type: ignore[arg-type]


def refuse_growing_tokenizer(tokenizer: Any, name: str) -> None:
    """Refuse a loaded tokenizer as `refuse_growing_files` does: it may come from other files."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    parts = {part: getattr(backend, part, None) for part in (*REWRITING_PARTS, "post_processor")}
    states = {part: each.__getstate__() for part, each in parts.items() if each is not None}
    refuse_growing_parts({part: json.loads(state) for part, state in states.items()}, name)


def refuse_growing_parts(parts: Any, name: str, about: str = "model") -> None:
    """Refuse the parts of tokenizer.json if they make too much of a text. `name`: the model's."""
    if not isinstance(parts, dict):
        return
    model = parts.get("model")
    names = [key for key in ("vocab", "merges") if isinstance(model, dict)
             and isinstance(model.get(key), str)]  # fmt: skip
    if names:  # the package of tokenizers would open that file
        raise _growth_error(name, f"has a text as its {names[0]}, not tokens", about)
    specials = (parts.get(f"{kind}_special_tokens") for kind in ("additional", "extra"))
    named = max(len(each) if isinstance(each, list | dict) else 0 for each in specials)
    if named > MAX_SPECIAL_TOKENS:
        what = f"names {named:,} special tokens, and {MAX_SPECIAL_TOKENS:,} are the most"
        raise _growth_error(name, what, about)
    rules = [rule for part in REWRITING_PARTS for rule in _rules(parts.get(part))]
    if sum("type" in rule for rule in rules) > MAX_RULES:
        raise _growth_error(name, f"has more than {MAX_RULES} rules", about)
    if any(map(_has_damaged_table, rules)):
        raise _growth_error(name, "has a table of letters that is damaged", about)
    growth = max(_growth(parts.get(part)) for part in REWRITING_PARTS)
    if growth > MAX_GROWTH:
        problem = f"may make {growth:,} letters of one, and {MAX_GROWTH:,} are too many"
        if growth >= 10**15:
            problem = "may make more than 10¹⁵ letters of one"
        raise _growth_error(name, problem, about)
    templates = [rule for rule in _rules(parts.get("post_processor")) if "single" in rule]
    added = sum(map(_added_tokens, templates))
    if added > MAX_ADDED_TOKENS or any(map(_repeats_text, templates)):
        what = f"adds {added:,} tokens to a text, and {MAX_ADDED_TOKENS} are the most"
        if added <= MAX_ADDED_TOKENS:
            what = "repeats each text"
        raise _growth_error(name, what, about)


def _growth_error(name: str, what: str, about: str) -> AttnvizError:
    return AttnvizError(f"the tokenizer of the model '{name}' {what}", ORIGINAL_HINT, about=about)


def _rules(part: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a part of tokenizer.json, however deep."""
    yield from (value for value in _values(part) if isinstance(value, dict))


def _values(whole: Any) -> Iterator[Any]:
    """Yield a value of JSON, and every value in it, however deep."""
    waiting = [whole]
    while waiting:
        value = waiting.pop()
        yield value
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _growth(part: Any) -> int:
    """Return how many letters the rules of a part can make of one, at most 10¹⁵."""
    return min(prod(map(_rule_growth, _rules(part))), 10**15)


def _rule_growth(rule: Mapping[str, Any]) -> int:
    """Return how many letters one rule can make of one.

    >>> _rule_growth({"type": "Replace", "pattern": {"String": "``"}, "content": '"'})
    1
    """
    pattern = rule.get("pattern")
    if isinstance(rule.get(LETTER_TABLE), str):
        return _longest_text(_letter_table(rule))
    if rule.get("type") == "ByteLevel":
        return BYTE_LETTERS
    content = str(rule.get("content", ""))
    if isinstance(pattern, dict) and content:
        plain = pattern.get("String")
        if isinstance(plain, str) and plain:
            return -(-len(content) // len(plain))
        return len(content) + 1  # it may also match between letters
    return len(str(rule.get("prepend", ""))) + 1


def _has_damaged_table(rule: Mapping[str, Any]) -> bool:
    """Return whether the trie in SentencePiece's table of letters is longer than the table, for
    which the package of tokenizers asks for memory, and ends the process."""
    table = _letter_table(rule)
    return int.from_bytes(table[:4], "little") > len(table)


def _letter_table(rule: Mapping[str, Any]) -> bytes:
    """Return SentencePiece's table of letters: a trie with its size before it, then texts that end
    with a zero. Empty for a rule without one, or with one that the package refuses."""
    charsmap = rule.get(LETTER_TABLE)
    with suppress(ValueError):
        return base64.b64decode(charsmap) if isinstance(charsmap, str) else b""
    return b""


def _longest_text(table: bytes) -> int:
    """Return the length of the longest text in a table of letters."""
    texts = table[4 + int.from_bytes(table[:4], "little") :].split(b"\0")
    return max(1, *(len(each.decode(errors="replace")) for each in texts))


def _added_tokens(template: Mapping[str, Any]) -> int:
    """Return how many tokens a template adds to one text."""
    specials = template.get("special_tokens")
    added = 0
    for name in _pieces(template, "SpecialToken"):
        special = specials.get(name) if isinstance(specials, dict) else None
        ids = special.get("ids") if isinstance(special, dict) else None
        added += len(ids) if isinstance(ids, list) else 1
    return added


def _repeats_text(template: Mapping[str, Any]) -> bool:
    return len(_pieces(template, "Sequence")) > 1


def _pieces(template: Mapping[str, Any], kind: str) -> list[str]:
    """Return the names of the pieces of one kind in a template for one text."""
    single = template["single"]
    rules = single if isinstance(single, list) else []
    pieces = [each.get(kind) for each in rules if isinstance(each, dict)]
    return [str(each.get("id")) for each in pieces if isinstance(each, dict)]


def within_limit(cut: Callable[[], Result], letters: int) -> Result:
    """Return what a tokenizer makes of a text of so many letters; refuse to wait for ever.

    A regular expression may need time that grows with the fourth power of a text. The thread of a
    text that is given up ends with the process.
    """
    future = Future[Result]()

    def work() -> None:
        try:
            future.set_result(cut())
        except BaseException as error:  # raised again by the thread that waits
            future.set_exception(error)

    thread = threading.Thread(target=copy_context().run, args=(work,), daemon=True)
    thread.start()
    seconds = LEAST_WAIT + letters // LETTERS_PER_SECOND
    thread.join(seconds)
    if not future.done():
        raise AttnvizError(
            f"the tokenizer has not cut the text into tokens within {seconds} seconds",
            "give a shorter text, or use another model",
            about="text",
        )
    return future.result()
