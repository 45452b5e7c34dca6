"""The version, in a file of its own: whoever records it need not import the package."""

from __future__ import annotations

__version__ = "0.1.0"
