"""The compiled C core as cffi presents it; only `native` imports it."""

from typing import Any

ffi: Any
lib: Any
