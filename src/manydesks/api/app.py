"""The application: every route, behind the gate."""

from __future__ import annotations

import json
from typing import Any, cast
from urllib.parse import parse_qsl

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.routing import Match, Route

from manydesks.api.complaint import complaint, unread
from manydesks.api.document import POLICY, document, page
from manydesks.api.gate import Gate, Scope
from manydesks.api.hub import Hub
from manydesks.api.office import Office
from manydesks.api.readers import Readers
from manydesks.api.refusal import INTERNAL, refusal, refused
from manydesks.api.routes import agents, events, logs, messages, office, queue, responses, sessions, teams
from manydesks.api.shapes.base import errors
from manydesks.domain.errors import ManyDesksError
from manydesks.office.surface import Premises

GROUPS = (messages, queue, responses, agents, teams, events, sessions, logs, office)
#: how any request may be refused, whatever it asks for
ANY = errors(400, 401, 403, 429, 500, 503)
#: what FastAPI says of a body that it cannot read, whatever the reason
UNREAD = "There was an error parsing the body"
WORDS = {
    404: "There is nothing at this address; `GET /api/docs` lists what there is.",
    405: "This cannot be done there.",
}


def make_app(premises: Premises, readers: Readers, hub: Hub) -> Gate:
    app = routed(Office(premises=premises, readers=readers, hub=hub))

    def has_route(scope: Scope) -> bool:
        return any(route.matches(scope)[0] is Match.FULL for route in app.routes)

    def strange(scope: Scope) -> str | None:
        return _strange(app, scope)

    return Gate(
        app, has_route=has_route, strange=strange, home=premises.home, in_force=premises.in_force, clock=premises.clock
    )


def _strange(app: FastAPI, scope: Scope) -> str | None:
    """A parameter that the route of this request does not have: most likely one that is misspelled."""
    found = next((route for route in _every(app) if route.matches(scope)[0] is Match.FULL), None)
    if not isinstance(found, APIRoute) or not found.include_in_schema:
        return None
    known = {field.alias for field in found.dependant.query_params}
    given = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    return next((name for name, _ in given if name not in known), None)


def _every(app: FastAPI) -> list[Route]:
    """One by one: what the application itself lists are the groups that they came in."""
    grouped: list[Route] = app.state.grouped
    return [*grouped, *(route for route in app.routes if isinstance(route, Route) and route not in grouped)]


def _methods(app: FastAPI, scope: Scope) -> set[str]:
    found = [route for route in _every(app) if route.matches(scope)[0] is not Match.NONE]
    return {method for route in found for method in route.methods or ()}


def openapi_document() -> dict[str, Any]:
    """What the API can do, of no office in particular."""
    return document(_with_routes(cast("Office", None)))  # a route asks for its office when it is called


def _with_routes(of: Office) -> FastAPI:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, responses=ANY, redirect_slashes=False)
    app.state.grouped = []
    for group in GROUPS:
        router = group.routes(of)
        app.include_router(router)
        app.state.grouped += [route for route in router.routes if isinstance(route, Route)]
    return app


def routed(of: Office) -> FastAPI:
    """Every route, without the gate."""
    app = _with_routes(of)
    made = document(app)
    for_programs = json.dumps(made, ensure_ascii=False).encode()
    for_people = page(made)

    @app.get("/api/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return Response(for_programs, media_type="application/json")

    @app.get("/api/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(for_people, headers={"Content-Security-Policy": POLICY})

    @app.exception_handler(ManyDesksError)
    async def on_refusal(request: Request, error: Exception) -> Response:
        assert isinstance(error, ManyDesksError)
        return refused(error)

    @app.exception_handler(Exception)
    async def on_fault(request: Request, error: Exception) -> Response:
        # raised again once this is sent: the gate puts it into the log
        return refusal(500, INTERNAL)

    @app.exception_handler(RequestValidationError)
    async def on_bad_input(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return refusal(400, complaint(error.errors(), error.body, request.url.path))

    @app.exception_handler(HTTPException)
    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        sentence, headers = WORDS.get(error.status_code, error.detail), dict(error.headers or {})
        if error.detail == UNREAD:
            sentence = unread(error.__cause__)
        if error.status_code == 405:
            # of all routes at this address, not only of the first that was found
            headers["Allow"] = ", ".join(sorted(_methods(app, request.scope)))
        return refusal(error.status_code, sentence, headers)

    return app
