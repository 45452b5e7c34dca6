"""Whole files of matrices: of every kind that can be given, and of sizes that fit each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

Contents = dict[str, Any]  # of a file of matrices
KINDS = ("query", "key", "value")
CROSS = 0.3  # how often a block reads a second sentence, too


@dataclass(frozen=True)
class Given:
    """What a file gives, and the options that it is meant for."""

    contents: Contents
    options: tuple[str, ...] = ()


class _Maker:
    """A file being made up, of sizes that were drawn once."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.tokens = random.choice((1, 2, 2, 3, 4))
        self.keys = self.tokens if self._chance(0.7) else random.choice((1, 2, 5))
        self.heads = random.choice((1, 1, 2, 4))
        self.groups = random.choice([n for n in (1, 2, 4) if self.heads % n == 0])
        self.width = random.choice((1, 2, 2, 4))
        self.value = self.width if self._chance(0.7) else random.choice((1, 3))
        self.items = 2 if self._chance(0.2) else 0
        self.dim = self.heads * self.width if self._chance(0.8) else random.choice((1, 3, 6))
        self.hidden = random.choice((1, 3, 8))

    def made(self) -> Given:
        kind = self.random.choice(
            (self._projected, self._projected, self._block, self._queries, self._scores)
        )
        contents, options = kind()
        if self._chance(0.3):
            contents |= self._named()
        return Given(contents, options)

    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    def _numbers(self, *shape: int) -> Any:
        """Numbers of this shape: small ones, whole ones, and now and then large ones."""
        draw: Callable[[], float] = self.random.choice(
            (
                lambda: round(self.random.gauss(0, 1), 2),
                lambda: self.random.randrange(-2, 3),
                lambda: self.random.choice((0, 1e-20, 1e4, -3.5)),
            )
        )

        def filled(sides: tuple[int, ...]) -> Any:
            return [filled(sides[1:]) for _ in range(sides[0])] if sides else draw()

        return filled(shape)

    def _yes_or_no(self, *shape: int) -> Any:
        if not shape:
            return self.random.choice((0, 1, 1))
        return [self._yes_or_no(*shape[1:]) for _ in range(shape[0])]

    def _named(self) -> Contents:
        """Words for tokens and keys, and how many ids there are."""
        named: Contents = {"tokens": self._words(self.tokens), "vocabulary": 50}
        return named if self.keys == self.tokens else named | {"key_tokens": self._words(self.keys)}

    def _words(self, count: int) -> list[str]:
        words = ("I", "am", "日本", "\x1b[31mred", "a\u202eb", "<pad>", "the", " ", "=1+1")
        return [self.random.choice(words) for _ in range(count)]

    def _projected(self) -> tuple[Contents, tuple[str, ...]]:
        """Embeddings, and some of what makes queries, keys and values of them."""
        self.keys = self.tokens
        found: Contents = {"embeddings": self._numbers(*self._batch(), self.tokens, self.dim)}
        found |= self._some(self._attention(by_head=self._chance(0.3)))
        if self._chance(0.3):
            found["positions"] = self._numbers(self.tokens + self.random.choice((0, 3)), self.dim)
        return found | self._masks(), self._told()

    def _attention(self, *, by_head: bool = False) -> Contents:
        """All that an attention learns."""
        widths = (self.heads, self.width), (self.groups, self.width), (self.groups, self.value)
        found: Contents = {}
        for kind, (heads, width) in zip(KINDS, widths, strict=True):
            matrix = (heads, self.dim, width) if by_head else (self.dim, heads * width)
            found[f"w_{kind}"] = self._numbers(*matrix)
            found[f"b_{kind}"] = self._numbers(heads * width)
        found["w_out"] = self._numbers(self.heads * self.value, self.dim)
        found["b_out"] = self._numbers(self.dim)
        return found

    def _block(self) -> tuple[Contents, tuple[str, ...]]:
        """What one or two layers learn."""
        self.value, self.dim, self.items = self.width, self.heads * self.width, 0
        self.keys = self.tokens
        found: Contents = {"embeddings": self._numbers(self.tokens, self.dim)}
        layers = self.random.choice((1, 2))
        crossed = self._chance(CROSS)
        for layer in range(layers):
            own = self._some(self._attention()) | self._some(self._around(crossed=crossed))
            found |= {f"layers.{layer}.{name}" if layer else name: own[name] for name in own}
        if crossed:
            found["memory"] = self._numbers(self.random.choice((1, 3)), self.dim)
        return found | self._masks(), (f"--layers={layers}", *self._told())

    def _around(self, *, crossed: bool) -> Contents:
        """What stands around the attention of a block."""
        found: Contents = {
            "w_1": self._numbers(self.dim, self.hidden),
            "b_1": self._numbers(self.hidden),
            "w_2": self._numbers(self.hidden, self.dim),
            "b_2": self._numbers(self.dim),
        }
        sublayers = ("attention", "feed_forward", *(("cross",) if crossed else ()))
        for each in sublayers:
            found |= {f"{each}_{name}": self._numbers(self.dim) for name in ("gain", "shift")}
        if crossed:
            found |= {f"cross_{name}": each for name, each in self._attention().items()}
        return found

    def _queries(self) -> tuple[Contents, tuple[str, ...]]:
        """Queries, keys and values as they are; Keras has heads behind tokens."""
        sides = (self.heads, self.tokens, self.width), (self.groups, self.keys, self.width)
        names = ("queries", "keys", "values")
        found: Contents = {}
        last = self._chance(0.2) and self.heads > 1
        for name, (heads, tokens, width) in zip(
            names, (*sides, (self.groups, self.keys, self.value)), strict=True
        ):
            of_heads = (tokens, heads) if last else (heads, tokens)
            shape = of_heads if self.heads > 1 or self._chance(0.3) else (tokens,)
            found[name] = self._numbers(*self._batch(), *shape, width)
        if self._chance(0.2):
            found["w_score"] = self._numbers(self.width * self.heads)
        return found | self._masks() | self._axes(found, last=last), self._told()

    def _scores(self) -> tuple[Contents, tuple[str, ...]]:
        """Scores, or weights by hand, with values or without."""
        heads = (self.heads,) if self.heads > 1 or self._chance(0.2) else ()
        name = self.random.choice(("scores", "scores", "weights"))
        found = {name: self._numbers(*self._batch(), *heads, self.tokens, self.keys)}
        self.groups = self.heads
        if self._chance(0.7):
            found["values"] = self._numbers(*self._batch(), *heads, self.keys, self.value)
        return found | self._masks() | self._axes(found, last=False), self._told()

    def _batch(self) -> tuple[int, ...]:
        return (self.items,) if self.items else ()

    def _axes(self, found: Contents, *, last: bool) -> Contents:
        """What the sides count, said of all or of one."""
        if not self._chance(0.6 if self.items else 0.15):
            return {}
        of_heads = ("token", "head") if last else ("head", "token")
        behind = {"scores": "key", "weights": "key"}
        axes = {}
        for name, value in found.items():
            sides = _depth(value) - (2 if self.items else 1)
            own = of_heads if sides == 2 else ("token",)
            if name != "w_score":
                first = ("item",) if self.items else ()
                axes[name] = [*first, *own, behind.get(name, "width")]
        if len({tuple(each) for each in axes.values()}) == 1 and self._chance(0.5):
            return {"axes": next(iter(axes.values()))}
        return {"axes": axes}

    def _masks(self) -> Contents:
        """Who may read whom: for all heads, for each, for each item, or for all queries."""
        if not self._chance(0.35):
            return {}
        cells = (self.tokens, self.keys)
        shapes = [cells, cells, (self.heads, *cells)]
        if self.items:
            shapes += [(self.items, *cells), (self.items, 1, 1, self.keys)]
        shape = self.random.choice(shapes)
        name = self.random.choice(("visible", "visible", "hidden", "mask"))
        if name != "mask":
            return {name: self._yes_or_no(*shape)}
        return {name: _each(self._yes_or_no(*shape), (self.random.choice((-1e9, -0.5, -9)), 0))}

    def _some(self, found: Contents) -> Contents:
        """All of them, or some."""
        share = self.random.choice((1, 1, 0.7, 0.3))
        return {name: each for name, each in found.items() if self._chance(share)}

    def _told(self) -> tuple[str, ...]:
        """What the file does not say, as whoever has such a file would type it."""
        several = self.heads > 1 and self._chance(0.9)
        heads: tuple[str, ...] = (f"--heads={self.heads}",) if several else ()
        if several and self.groups < self.heads and self._chance(0.7):
            heads += (f"--kv-heads={self.groups}",)
        return heads + (("--item=1",) if self.items and self._chance(0.7) else ())


def whole(random: Random) -> Given:
    """A file of matrices that mostly can be used as it is."""
    return _Maker(random).made()


def _depth(value: Any) -> int:
    """How many sides lists in lists have."""
    return 1 + _depth(value[0]) if isinstance(value, list) else 0


def _each(value: Any, numbers: tuple[float, float]) -> Any:
    """One number where 0 stands, and another where 1 does."""
    return [_each(one, numbers) for one in value] if isinstance(value, list) else numbers[value]
