"""The build backend: meson-python, but for two cases in which it succeeds or fails without a word that helps."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any, NoReturn

import mesonpy
from mesonpy import build_editable, build_sdist, get_requires_for_build_sdist, get_requires_for_build_wheel

__all__ = [
    "build_editable", "build_sdist", "build_wheel", "get_requires_for_build_editable", "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]  # fmt: skip

_NOT_ISOLATED = """
An editable install compiles the sources at import, with build tools that stay installed. In an activated environment run:

    pip install 'meson-python>=0.17' 'meson>=1.3' ninja 'cffi>=2.1'
    pip install --no-build-isolation --no-deps -e .
"""


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """A wheel. meson-python compiles in a folder of the checkout; where that is read-only, a temporary folder replaces it."""
    settings = dict(config_settings or {})
    with tempfile.TemporaryDirectory() as folder:
        if not os.access(os.curdir, os.W_OK):
            settings.setdefault("build-dir", folder)
        return mesonpy.build_wheel(wheel_directory, settings, metadata_directory)


def get_requires_for_build_editable(config_settings: dict[str, Any] | None = None) -> NoReturn:
    """Refuses. An installer asks this before it makes an isolated environment, which it deletes after the build, and then every
    import would fail."""
    print(_NOT_ISOLATED, file=sys.stderr)
    raise SystemExit(1)
