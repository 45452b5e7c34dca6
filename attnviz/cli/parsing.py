"""Parses a command line, and guesses what was meant by options and names that do not exist."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property, partial
from itertools import takewhile
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer

from attnviz.cli import parsing
from attnviz.errors import AttnvizError
from attnviz.wording.commands import quoted
from attnviz.wording.words import listed

LONGEST = 40  # letters of what was typed, that are said again


class Parsing:
    """What a command, or a group of them, does with its words.

    typer would hand every value to a library that takes longer to load than all else that an
    error needs, and which has its own words for what is wrong with it.
    """

    @cached_property
    def kinds(self) -> Mapping[str, Any]:
        """What each parameter takes, as the function behind the command is annotated."""
        callback: Any = getattr(self, "callback", None)
        return {} if callback is None else get_type_hints(callback)

    def get_params(self, ctx: Any) -> list[Any]:
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for each in found:
            each.process_value = partial(_processed, each, self.kinds.get(each.name, bool))
        return found

    def make_parser(self, ctx: Any) -> Any:
        """With other names for some options, that no help lists."""
        parser: Any = super().make_parser(ctx)  # type: ignore[misc]
        for each in self.get_params(ctx):
            others = [name for name, meant in parsing.OTHER_NAMES.items() if meant in each.opts]
            if others:
                names, each.opts = each.opts, others
                each.add_to_parser(parser, ctx)
                each.opts = names
        return parser

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = tuple(args)
        try:
            rest: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        except typer.TyperException as error:
            raise _refused(self, ctx, words, error) from None
        return rest


def refuse_more(command: Any, ctx: Any, rest: Sequence[str]) -> None:
    """Words that no parameter takes: most likely a text without quotes."""
    places = [each for each in command.params if each.param_type_name == "argument"]
    taken = [ctx.params.get(each.name) for each in places]
    words = [word for word in (*taken, *rest) if isinstance(word, str)]
    if not places:  # what such a command is about, if it is about anything, is the model
        has_model = any("--model" in each.opts for each in command.params)
        raise AttnvizError(
            f"'{_short(rest[0])}' is one word too many",
            f"did you mean {ctx.command_path} --model {quoted(_short(rest[0]))}?"
            if has_model
            else f"{ctx.command_path} takes no text",
        )
    if places[0].name != "text":
        raise AttnvizError(
            f"'{_short(rest[0])}' is one word too many",
            f"{ctx.command_path} takes one {places[0].metavar}",
        )
    told = " ".join(words)
    raise AttnvizError(
        f"{len(words):,} texts are given, and {'one is' if len(places) == 1 else 'two are'} "
        "expected",
        f'put quotes around a text of several words: {ctx.command_path} "{told}"',
    )


def _refused(command: Any, ctx: Any, words: Sequence[str], error: Any) -> AttnvizError:
    """What the parser refuses: an option that is not there, or that is written in another way."""
    name = str(getattr(error, "option_name", ""))
    if hasattr(error, "possibilities"):
        whole = next((word for word in words if word.startswith(name)), name)
        return parsing.no_option(name, whole, command, ctx)
    meant = parsing.OTHER_NAMES.get(name, name)
    option = next(
        each for each in command.get_params(ctx) if meant in (*each.opts, *each.secondary_opts)
    )
    if getattr(option, "is_flag", False):
        return AttnvizError(
            f"{name} takes no value", f"write {' or '.join([*option.opts, *option.secondary_opts])}"
        )
    return AttnvizError(f"{name} needs a value", f"write {name} {_example(option)}")


def _processed(parameter: Any, kind: Any, context: Any, value: Any) -> Any:
    """The value of a parameter, of the kind that its command takes."""
    if value is None and parameter.required:
        raise AttnvizError(
            f"{context.command_path} needs a {parameter.metavar}",
            parsing.MISSING.get(context.command_path, f"see {context.command_path} --help"),
        )
    read = _READERS.get(_element(kind), _as_it_is)
    if isinstance(value, (list, tuple)):
        value = tuple(read(parameter, each) for each in value)
    elif value is not None:
        value = read(parameter, value)
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


def _element(kind: Any) -> Any:
    """
    >>> _element(list[Path] | None) is Path, _element(int) is int
    (True, True)
    """
    inner = [each for each in get_args(kind) if each is not type(None)]
    return _element(inner[0]) if inner else kind


def _whole(parameter: Any, value: Any) -> int:
    if isinstance(value, str) and not re.fullmatch(r"[+-]?[0-9]{1,300}", value.strip()):
        raise _no_number(parameter, value, "a whole number")
    return int(value)


def _number(parameter: Any, value: Any) -> float:
    try:
        return float(value)
    except ValueError:
        raise _no_number(parameter, value, "a number") from None


def _path(parameter: Any, value: Any) -> Path:
    return Path(value)


def _as_it_is(parameter: Any, value: Any) -> Any:
    return value


_READERS: Mapping[Any, Callable[[Any, Any], Any]] = {int: _whole, float: _number, Path: _path}


def _no_number(parameter: Any, value: str, kind: str) -> AttnvizError:
    name = parameter.opts[0]
    problem = f"{name} is '{_short(value)}', and must be {kind}"
    return AttnvizError(problem, f"try {name} {_example(parameter)}")


def _example(parameter: Any) -> str:
    """A value that works: the one that its declaration gives, or its default."""
    declared = getattr(getattr(parameter, "rich_help_panel", None), "example", "")
    default = parameter.default if isinstance(parameter.default, (int, float, str)) else None
    return str(declared or default or parameter.metavar)


def _short(word: str) -> str:
    return word if len(word) <= LONGEST else f"{word[: LONGEST - 1]}…"


OTHER_NAMES = {  # that work, and are listed nowhere
    "--output": "--out",
    "--colour": "--colors",
    "--colours": "--colors",
    "--color": "--colors",
    "--cmap": "--colors",
}

MEANT: dict[tuple[str, ...], str] = {  # names of options that people expect, and what there is
    ("mask", "masked", "masking", "autoregressive", "decoder"): "did you mean --causal, --window?",
    ("palette", "colormap", "colourmap", "color-map"): "did you mean --colors?",
    ("save", "write", "to", "export", "outfile", "output-file", "dest"): "did you mean --out?",
    ("format", "png", "svg", "pdf", "csv", "npz", "markdown", "type"): (
        "the suffix of the file says which: --out heatmap.png"
    ),
    ("pptx", "powerpoint", "slides", "deck", "presentation"): (
        "slides are a kind of file: attnviz run --out deck.pptx"
    ),
    ("gif", "animate", "animation", "video", "mp4"): (
        "an animation is a kind of file: attnviz steps --out steps.gif"
    ),
    ("html", "web", "browser", "page"): ("a page is a kind of file: attnviz run --out view.html"),
    ("interactive", "i", "ui", "gui", "tui", "app", "serve"): (
        "the terminal is not interactive: --query follows one token, and attnviz steps shows "
        "every number"
    ),
    ("checkpoint", "weights-file", "pretrained"): "did you mean --model?",
    ("huggingface", "hf", "bert"): (
        "did you mean --model? it takes a name on a hub, such as google-bert/bert-base-uncased"
    ),
    ("text", "sentence", "input", "prompt", "string"): (
        "give the text in quotes, without an option; --file reads it from a file"
    ),
    ("token", "word", "focus", "select", "highlight", "explain"): "did you mean --query?",
    ("head", "layer-index"): "--heads says how many there are; attnviz steps --head shows one",
    ("gqa", "mqa", "groups", "n-kv-heads", "num-kv-heads", "num-key-value-heads"): (
        "did you mean --kv-heads?"
    ),
    ("softcap", "cap", "clip", "logit-cap", "softcapping", "attn-logit-softcapping", "tanh"): (
        "did you mean --soft-cap?"
    ),
    ("bahdanau", "additive", "score", "score-function", "similarity"): "did you mean --scoring?",
    ("num-heads", "n-heads", "nheads", "n-head", "num-attention-heads"): "did you mean --heads?",
    ("d-k", "dk", "head-size", "head-width", "key-dim"): "did you mean --head-dim?",
    ("d-model", "embed-dim", "embedding-dim", "hidden-size", "width"): (
        "--dim is how many numbers represent a token; --size is how large a picture is"
    ),
    ("d-ff", "ffn", "mlp", "ff"): "did you mean --feed-forward?",
    ("no-mlp", "no-ffn", "no-feed-forward", "attn-only"): "did you mean --attention-only?",
    ("ablate", "ablation", "knock-out", "knockout", "switch-off", "prune", "remove", "off"): (
        "did you mean --without?"
    ),
    ("prediction", "predictions", "logits", "next", "next-token", "top-k", "topk", "answer"): (
        "did you mean --predict?"
    ),
    ("n-layers", "num-layers", "depth", "block", "blocks", "transformer"): "did you mean --layers?",
    ("random-seed", "random-state", "rng", "manual-seed"): "did you mean --seed?",
    ("rope", "rotary", "alibi", "sinusoidal", "positional"): "did you mean --positions?",
    ("rope-theta", "rope-base", "theta", "base", "rope-freq-base"): "did you mean --position-base?",
    ("cross", "encoder", "source", "context"): "did you mean --memory?",
    ("gpu", "cuda", "cpu", "mps"): "did you mean --device?",
    ("precision", "float16", "bfloat16", "half", "fp16"): "did you mean --dtype?",
    ("dark", "light", "dark-mode", "style", "background"): "did you mean --theme dark?",
    ("figsize", "width-height", "resolution", "aspect", "pixels"): (
        "--size takes 16:9, inches (8x5) or pixels (1920x1080)"
    ),
    ("all", "everything", "verbose", "long"): (
        "--show all shows every part, --full every number of it"
    ),
    ("check", "test", "assert"): "did you mean --verify?",
    ("silent", "no-notes"): "did you mean --quiet?",
    ("softmax", "sharpness", "beta"): "did you mean --temperature?",
    ("vary", "sweep", "versus", "vs", "against"): "did you mean --by?",
    ("runs", "trials", "samples", "n-seeds", "seeds"): "did you mean --repeats?",
    ("decimals", "precision-digits", "round"): "did you mean --digits?",
    ("no-mask", "bidirectional"): "did you mean --no-causal?",
    ("unscaled", "raw"): "did you mean --no-scale?",
    ("full-help", "all-help", "long-help", "help-full"): "did you mean --help-all?",
    ("steps", "step-by-step", "walk"): "attnviz steps shows every number on the way",
    ("compare", "comparison", "diff"): "attnviz compare shows ways of attending side by side",
    ("epochs", "iterations", "iters", "max-steps", "n-steps"): "did you mean --steps?",
    ("lr", "learning-rate"): "did you mean --rate?",
    ("batch-size",): "did you mean --batch?",
    ("accuracy", "target", "patience", "stop-at"): "did you mean --until?",
    ("resume", "continue", "restart"): "did you mean --from?",
    ("example-sentence", "probe"): "did you mean --watch?",
    ("version",): "attnviz version prints it",
    ("list", "examples"): "attnviz example list names the examples",
}
COMMANDS = {  # words that people expect to be commands, in front of a text
    "visualize": "run",
    "visualise": "run",
    "visualization": "run",
    "viz": "run",
    "view": "run",
    "show": "run",
    "plot": "run",
    "draw": "run",
    "render": "run",
    "display": "run",
    "heatmap": "run",
    "attention": "run",
    "explain": "steps",
    "walk": "steps",
    "compute": "steps",
    "diff": "compare",
    "analyze": "inspect",
    "analyse": "inspect",
}
MOST_NAMED = 3  # commands that have an option
MISSING = {"attnviz example show": "attnviz example list names them"}
_SENTENCES = {name: told for names, told in MEANT.items() for name in names}


def no_option(name: str, whole: str, command: Any, ctx: Any) -> AttnvizError:
    """An option that is not there, with what is: by its spelling, by its meaning, elsewhere."""
    if " " in whole.partition("=")[0]:
        return AttnvizError(
            f"'{whole}' looks like an option", f'put -- before it: {ctx.command_path} -- "…"'
        )
    known = [*_options(command, ctx)]
    return AttnvizError(
        f"{ctx.command_path} has no option {name}", _hint(name.lower(), known, command, ctx)
    )


def _hint(name: str, known: Sequence[str], command: Any, ctx: Any) -> str:
    told = _SENTENCES.get(name.lstrip("-").replace("_", "-"), "")
    if ctx.command_path in told and (spelt := _near(name, known, 0.8)):
        return f"did you mean {spelt[0]}?"
    named = re.findall(r"--[\w-]+", told)
    if told and ("attnviz " in told or all(each in known for each in named)):
        return told
    near = [] if told else _near(name, known, 0.8)
    wanted = named[0] if named else name
    elsewhere = [path for path, options in _commands(ctx) if wanted in options]
    belongs = f"{wanted} belongs to {listed(elsewhere[:MOST_NAMED])}" if elsewhere else ""
    if near:
        return f"did you mean {near[0]}?{f' {belongs}' if belongs else ''}"
    if belongs:
        return belongs
    near = _near(name, known, 0.6)
    lists = "--help-all" if "--help-all" in known else "--help"
    return f"did you mean {near[0]}?" if near else f"{ctx.command_path} {lists} lists the options"


def _near(name: str, known: Sequence[str], cutoff: float) -> list[str]:
    """Options that begin so, or that are spelt nearly so."""
    word = name.lstrip("-").replace("_", "-")  # dashes are common to all
    options = {each.removeprefix("--"): each for each in known if each.startswith("--")}
    begun = [each for each in options if len(word) > 2 and each.startswith(word)]
    return [options[each] for each in begun or get_close_matches(word, options, 1, cutoff)]


def _options(command: Any, ctx: Any) -> Iterator[str]:
    for each in command.get_params(ctx):
        if each.param_type_name == "option":
            yield from (*each.opts, *each.secondary_opts)


def _commands(ctx: Any) -> Iterator[tuple[str, list[str]]]:
    """Every other command, by the words that call it, with its options."""
    yield from _below(ctx.find_root().command, ctx.find_root(), "attnviz")


def _below(group: Any, ctx: Any, path: str) -> Iterator[tuple[str, list[str]]]:
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if hasattr(command, "list_commands"):
            yield from _below(command, ctx, f"{path} {name}")
        else:
            yield f"{path} {name}", [*_options(command, ctx)]


def meant_command(args: Sequence[str]) -> str | None:
    """The line that is meant by words whose first is no command, and stands before a text.

    >>> meant_command(["visualize", "hello world"]), meant_command(["hello", "world"])
    ('attnviz run "hello world"', None)
    """
    word, *others = args
    texts = [*takewhile(lambda each: not each.startswith("-"), others)]
    if not texts or (len(texts) > 1 and " " not in texts[0]):
        return None
    meant = COMMANDS.get(word.lower())
    if meant is None and not (" " in texts[0] and re.fullmatch("[a-z]+", word)):
        return None
    return f'attnviz {meant or "run"} "{texts[0]}"'


def resembles(word: str, names: Iterable[str]) -> bool:
    """Whether a single word is most likely one of these, misspelt.

    >>> resembles("runn", ["run", "steps"]), resembles("I am", ["run"]), resembles("hello", ["run"])
    (True, False, False)
    """
    return bool(get_close_matches(word.lower(), list(names), n=1, cutoff=0.7))
