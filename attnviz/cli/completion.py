"""Completion for shells: what a word that is being typed may become, and the lines that install it.

The protocol is typer's. Nothing here may be slow: it runs whenever somebody presses Tab.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import typer

from attnviz.errors import AttnvizError, unknown
from attnviz.machine import files

VARIABLE = "_ATTNVIZ_COMPLETE"  # set by the shell's own script when it asks
SHELLS = ("bash", "zsh", "fish")

Names = Iterable[str] | Mapping[str, str] | Callable[[], Iterable[str] | Mapping[str, str]]


def completing(among: Names, *, several: bool = False) -> Callable[[str], list[tuple[str, str]]]:
    """What completes a word to one of some names, with what each is about; or several, by commas.

    >>> completing(["weights", "context"], several=True)("weights,c")
    [('weights,context', '')]
    """

    def complete(incomplete: str) -> list[tuple[str, str]]:
        known = among() if callable(among) else among
        about = known if isinstance(known, Mapping) else dict.fromkeys(known, "")
        done, comma, begun = incomplete.rpartition(",") if several else ("", "", incomplete)
        chosen = done.split(",")
        return [
            (f"{done}{comma}{name}", told)
            for name, told in about.items()
            if name.startswith(begun) and name not in chosen
        ]

    return complete


def completing_by(
    among: Callable[[Mapping[str, Any]], Names], *, several: bool = False
) -> Callable[[typer.Context, str], list[tuple[str, str]]]:
    """The same, where the names depend on what was typed before."""

    def complete(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        return completing(among(context.params), several=several)(incomplete)

    # Which parameter is which, typer reads off annotations.
    complete.__annotations__ = {"context": typer.Context, "incomplete": str}
    return complete


def prepare() -> None:
    """Tell typer's protocol which shells there are, where a shell is asking."""
    if VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()


def script(shell: str | None = None) -> str:
    """The lines that make a shell complete attnviz; that of this terminal, if none is named."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    text: str = get_completion_script(
        prog_name="attnviz", complete_var=VARIABLE, shell=_named(shell)
    )
    return text


def install(shell: str | None = None) -> Path:
    """Write those lines where the shell finds them when it starts."""
    from typer.completion import install as written  # type: ignore[attr-defined]

    try:
        path: Path = written(shell=_named(shell), prog_name="attnviz", complete_var=VARIABLE)[1]
    except OSError as error:
        raise AttnvizError(
            f"'{error.filename}' cannot be written: {files.reason(error)}",
            "print the lines with attnviz --show-completion, and save them yourself",
        ) from None
    return path


def _named(shell: str | None) -> str:
    if shell is None:
        return shell_here()
    if shell not in SHELLS:
        raise unknown("completion for the shell", shell, SHELLS)
    return shell


def shell_here() -> str:
    """The shell that attnviz was called from; else the one that the machine starts for a person."""
    found = _parent() or Path(os.environ.get("SHELL", "")).name
    if found not in SHELLS:
        about = (
            f"completion is not available for the shell '{found}'"
            if found
            else "no shell was found"
        )
        raise AttnvizError(about, f"call it from one of: {', '.join(SHELLS)}")
    return found


def _parent() -> str:
    import shellingham

    try:
        name: str = shellingham.detect_shell()[0]
    except (shellingham.ShellDetectionFailure, OSError):
        return ""
    return name if name in SHELLS else ""
