"""`manydesks`, whose API has one route more: one that does nothing, on the same server, to compare with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from manydesks.api import app
from manydesks.api.answer import answered
from manydesks.api.shapes.base import NOTHING, Nothing, errors
from manydesks.cli.main import main


def routes(_: Any) -> APIRouter:
    router = APIRouter()

    @router.post("/api/nothing", responses=errors(413, 415))
    async def nothing(given: Nothing = NOTHING) -> Response:
        return answered({"ok": True})

    return router


if __name__ == "__main__":
    app.GROUPS = (*app.GROUPS, SimpleNamespace(routes=routes))  # type: ignore[assignment]
    main()
