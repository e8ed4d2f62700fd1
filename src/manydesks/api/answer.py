"""An answer that is asked for so often that it is written down without being looked over once more."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def answered(value: Any) -> Response:
    """As JSON. What it holds must fit the route's shape: the tests hold it against the document."""
    return Response(_dumps(value).encode("utf-8", "replace"), media_type="application/json")
