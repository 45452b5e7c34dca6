"""The steps of each token that somebody may follow on a page, in few bytes.

A page has the steps of one token; what other tokens' steps have in common with these, or with each
other, is kept once. Of a long sentence the steps of as many tokens are there as have room.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from attnviz.renderers.page.packing import text_of
from attnviz.renderers.page.panels import step
from attnviz.views.view import View
from attnviz.wording.printable import exact_json

ROOM = 2_500_000  # letters of all steps, which are about 200 kB in a page


def packed_steps(view: View) -> dict[str, str]:
    """The block that a page unpacks; none where there is nothing to follow."""
    if view.following is None or view.heads is None:
        return {}
    parts: dict[str, int] = {}
    found = {
        place: {"title": title, "parts": [parts.setdefault(each, len(parts)) for each in steps]}
        for place, title, steps in _with_room(view)
    }
    text = exact_json({"parts": list(parts), "of": found})
    return {"steps": text_of(zlib.compress(text.encode(), 9))}


def _with_room(view: View) -> Iterator[tuple[int, str, list[str]]]:
    """Each token with its title and the markup of its steps, the one that is asked for first."""
    assert view.heads is not None, "who looks at steps can follow a token"
    asked = view.heads.query or 0
    places = range(len(view.heads.heads[0].reads.labels))
    room = ROOM
    for place in sorted(places, key=lambda each: each != asked):
        title, sections = view.followed(place)
        steps = [step(each) for each in sections]
        room -= sum(map(len, steps))
        if room < 0 and place != asked:
            return
        yield place, title, steps
