"""Builds HTML from tags; every word is escaped, so that no text becomes markup."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


class Markup(str):
    """HTML that is written as it is; any other str is escaped."""

    __slots__ = ()


NO_MARKUP = Markup()


def tag(name: str, *inner: str, **attributes: str | int | bool | None) -> Markup:
    """Return an element with its content, of which only Markup is not escaped, and its attributes.

    >>> tag("td", "a < b", class_="s3", hidden=True, title=None)
    '<td class="s3" hidden>a &lt; b</td>'
    """
    return Markup(f"<{name}{_attributes(attributes)}>{join_markup(inner)}</{name}>")


def empty_tag(name: str, **attributes: str | int | bool | None) -> Markup:
    """Return an element that has neither content nor an end tag.

    >>> empty_tag("col", span=2)
    '<col span="2">'
    """
    return Markup(f"<{name}{_attributes(attributes)}>")


def join_markup(parts: Iterable[str]) -> Markup:
    """Join texts, which are escaped, and markup, which is not."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts))


def _attributes(attributes: dict[str, str | int | bool | None]) -> str:
    """Return attributes as HTML, each behind a space; None and False are left out.

    Names are written as in Python: `class_`, `aria_label`. True is an attribute without a value.
    """
    parts = []
    for name, value in attributes.items():
        if value is not None and value is not False:
            html_name = name.rstrip("_").replace("_", "-")
            parts.append(html_name if value is True else f'{html_name}="{escape(str(value))}"')
    return "".join(f" {part}" for part in parts)
