"""HTML out of tags, in which every word is text: nothing that anybody wrote is ever markup."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


class Markup(str):
    """What is markup already, and is written as it is."""

    __slots__ = ()


NO_MARKUP = Markup()


def tag(name: str, *inner: str, **attributes: str | int | bool | None) -> Markup:
    """
    >>> tag("td", "a < b", class_="s3", hidden=True, title=None)
    '<td class="s3" hidden>a &lt; b</td>'
    """
    return Markup(f"<{name}{_attributes(attributes)}>{join_markup(inner)}</{name}>")


def empty_tag(name: str, **attributes: str | int | bool | None) -> Markup:
    """A tag without an end, or that ends where it begins.

    >>> empty_tag("col", span=2)
    '<col span="2">'
    """
    return Markup(f"<{name}{_attributes(attributes)}>")


def join_markup(parts: Iterable[str]) -> Markup:
    """One after another: words spelled so that they are words, markup as it is."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts))


def _attributes(attributes: dict[str, str | int | bool | None]) -> str:
    """Names as Python has them: class_, aria_label, stroke_width."""
    return "".join(
        f" {_attribute_name(name)}"
        if value is True
        else f' {_attribute_name(name)}="{escape(str(value))}"'
        for name, value in attributes.items()
        if value is not None and value is not False
    )


def _attribute_name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")
