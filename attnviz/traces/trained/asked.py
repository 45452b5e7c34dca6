"""What may be asked of a trained model, and what it has decided already; without torch."""

from __future__ import annotations

from dataclasses import fields
from importlib.util import find_spec

from attnviz.errors import AttnvizError
from attnviz.traces.settings import Settings
from attnviz.traces.trained.folder import refuse_unfit
from attnviz.traces.trained.place import found, is_trained
from attnviz.traces.trained.quiet import missing_extra
from attnviz.wording.commands import chosen, option, quoted

OF_A_TRAINED_MODEL = ("attention", "target", "generate", "truncate", "trust_remote_code")
CAN_BE_ASKED = ("model", "without", "device", "dtype", "seed", *OF_A_TRAINED_MODEL)


def refuse_decided(settings: Settings) -> None:
    """Refuse settings that a trained model has of its own."""
    for name in chosen(settings):
        if name not in CAN_BE_ASKED:
            raise AttnvizError(
                f"{option(name)} is given, but the trained model '{settings.model}' decides that "
                "itself",
                f"leave {option(name)} out, or --model",
                about=name,
            )


def refuse_ranking(name: str) -> None:
    """Refuse to rank heads by right answers: of a trained transformer none are known."""
    if is_trained(name):
        raise AttnvizError(
            f"'{name}' is a trained transformer, but attnviz heads only ranks models that learned "
            "a task",
            f'try: attnviz inspect "the animal was tired" --model {quoted(name)} --by effect',
            about="model",
        )


def refuse_unusable(settings: Settings) -> None:
    """Refuse a model that cannot be loaded, as far as its files tell."""
    if find_spec("transformers") is None:
        raise missing_extra()
    place = None if settings.model is None else found(settings.model)
    if place is not None and place.folder is not None:
        refuse_unfit(place.folder)


def refuse_untrained(settings: Settings) -> None:
    """Refuse what trained models alone can be asked for."""
    defaults = {each.name: each.default for each in fields(Settings)}
    for name in OF_A_TRAINED_MODEL:
        if getattr(settings, name) != defaults[name]:
            raise AttnvizError(
                f"{option(name)} is about trained models, and no trained model is given",
                "give --model minilm, a folder, or a name on a hub",
                about=name,
            )
