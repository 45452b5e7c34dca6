"""What may be asked of a trained model, and what it has decided already; without torch."""

from __future__ import annotations

from dataclasses import fields

from attnviz.errors import AttnvizError
from attnviz.traces.settings import Settings
from attnviz.wording.commands import chosen, option

OF_A_TRAINED_MODEL = ("attention", "target", "generate", "truncate", "trust_remote_code")
CAN_BE_ASKED = ("model", "without", "device", "dtype", "seed", *OF_A_TRAINED_MODEL)


def refuse_decided(settings: Settings) -> None:
    """Refuse settings that a trained model has of its own."""
    for name in chosen(settings):
        if name not in CAN_BE_ASKED:
            raise AttnvizError(
                f"{option(name)} is given, and the model '{settings.model}' is trained: it decides "
                "that itself",
                f"leave {option(name)} out, or --model",
                about=name,
            )


def refuse_untrained(settings: Settings) -> None:
    """Refuse what trained models alone can be asked for."""
    defaults = {each.name: each.default for each in fields(Settings)}
    for name in OF_A_TRAINED_MODEL:
        if getattr(settings, name) != defaults[name]:
            raise AttnvizError(
                f"{option(name)} is about trained models, and there is none",
                "give --model minilm, a folder, or a name on a hub",
                about=name,
            )
