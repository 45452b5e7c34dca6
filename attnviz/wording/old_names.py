"""Old names of public attributes, which still work in this version; the next one deletes this."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from operator import attrgetter
from typing import Any, TypeVar

AnyClass = TypeVar("AnyClass", bound=type[Any])
NEW_NAMES: dict[str, dict[str, str]] = {  # by class: old name, new name
    "Inspection": {
        "looking": "options",
        "plain": "head_maps",
        "weighed": "weighted_maps",
        "divided": "share_maps",
        "whole": "token_maps",
    },
    "TraceComparison": {"looking": "options"},
    "Walk": {"asked": "options"},
    "Trace": {"blind": "rows_without_weights", "handed": "external_origin"},
    "Prediction": {"asked": "asked_positions", "asks": "asking_words", "of": "answer_count"},
    "Ranking": {"whole": "with_all_heads", "none": "with_no_heads"},
    "Task": {"asked": "answer_noun"},
    "Settings": {"blocks": "has_blocks", "feeds": "has_feed_forward"},
    "View": {
        "titled": "has_chosen_title",
        "overhead": "heading",
        "alone": "slide_excerpt",
        "explored": "head_explorer",
        "following": "query_steps",
        "followed": "steps_of_query",
    },
}


def with_old_names(cls: AnyClass) -> AnyClass:
    """Decorate a dataclass: its old names can be read, and given as keywords, also to `replace`.

    >>> from attnviz import inspect, trace
    >>> inspect(trace("I am"), head=0).looking.head
    0
    """
    new_names, init = NEW_NAMES[cls.__name__], cls.__init__

    @wraps(init)
    def call_with_new_names(self: Any, *arguments: Any, **keywords: Any) -> None:
        # Old names come last: `replace` gives the value of the new name, too.
        for old in [name for name in new_names if name in keywords]:
            keywords[new_names[old]] = keywords.pop(old)
        init(self, *arguments, **keywords)

    call: Callable[..., None] = call_with_new_names
    cls.__init__ = call
    for old, new in new_names.items():
        setattr(cls, old, property(attrgetter(new), doc=f"The old name of `{new}`."))
    return cls
