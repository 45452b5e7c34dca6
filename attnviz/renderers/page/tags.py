"""HTML out of tags, in which every word is text: nothing that anybody wrote is ever markup."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


class Markup(str):
    """What is markup already, and is written as it is."""

    __slots__ = ()


NONE = Markup()


def tag(name: str, *inner: str, **attributes: str | int | bool | None) -> Markup:
    """
    >>> tag("td", "a < b", class_="s3", hidden=True, title=None)
    '<td class="s3" hidden>a &lt; b</td>'
    """
    return Markup(f"<{name}{_attributes(attributes)}>{together(inner)}</{name}>")


def empty(name: str, **attributes: str | int | bool | None) -> Markup:
    """A tag without an end, or that ends where it begins.

    >>> empty("col", span=2)
    '<col span="2">'
    """
    return Markup(f"<{name}{_attributes(attributes)}>")


def together(parts: Iterable[str]) -> Markup:
    """One after another: words spelled so that they are words, markup as it is."""
    return Markup("".join(each if isinstance(each, Markup) else escape(each) for each in parts))


def _attributes(given: dict[str, str | int | bool | None]) -> str:
    """Names as Python has them: class_, aria_label, stroke_width."""
    return "".join(
        f" {_named(name)}" if value is True else f' {_named(name)}="{escape(str(value))}"'
        for name, value in given.items()
        if value is not None and value is not False
    )


def _named(name: str) -> str:
    return name.rstrip("_").replace("_", "-")
