"""The OpenAPI document, and a page of it for people that loads nothing: no script, no font, nothing from outside."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from manydesks import __version__
from manydesks.api.shapes.base import WORDS

LOGIN = "token"
ABOUT = """\
Everything that the command line does to a running office. Send the office's token with every request, as
`Authorization: Bearer …`; `manydesks token show` prints it. Errors are `{"error": "<sentence>"}`. Times are integer
milliseconds UTC. What changes something is sent as `application/json`. Lists are paged by `limit` and `after`."""
#: how any request may be refused, whatever it asks for
STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
code, pre { font: 0.9em ui-monospace, monospace } h2 { margin-top: 2.5rem; border-bottom: 1px solid #8888 }
article { margin: 1rem 0; padding: 0.5rem 1rem; border: 1px solid #8885; border-radius: 6px }
h3 { margin: 0.2rem 0; font-size: 1rem } h3 b { display: inline-block; min-width: 4.5rem }
table { border-collapse: collapse; margin: 0.5rem 0 }
td, th { text-align: left; padding: 0.1rem 1rem 0.1rem 0; vertical-align: top }
.needed { font-weight: 600 } .dim { opacity: 0.7 } summary { cursor: pointer }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def document(app: FastAPI) -> dict[str, Any]:
    """Of all routes as they are."""
    made = get_openapi(
        title="ManyDesks", version=__version__, description=ABOUT, routes=app.routes, openapi_version="3.1.0"
    )
    made["components"]["securitySchemes"] = {
        LOGIN: {"type": "http", "scheme": "bearer", "description": "The office's token."}
    }
    made["security"] = [{LOGIN: []}]
    for path in made["paths"].values():
        for operation in path.values():
            # what does not fit is 400 here, with a sentence
            operation["responses"].pop("422", None)
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _sent(parameter["schema"])
            if "requestBody" in operation:
                operation["responses"]["408"] = {**operation["responses"]["413"], "description": WORDS[408]}
                body = operation["requestBody"]
                operation["requestBody"] = {**body, "content": _whole(body["content"])}
            operation["responses"] = dict(sorted(operation["responses"].items()))
    schemas = made["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    _close(schemas)
    return made


def _close(part: Any) -> None:
    """A table whose names have a pattern has no others; left unsaid, it would have any."""
    if isinstance(part, dict):
        if "patternProperties" in part:
            part.setdefault("additionalProperties", False)
        for inner in part.values():
            _close(inner)
    elif isinstance(part, list):
        for inner in part:
            _close(inner)


def _sent(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter's: one that may be missing cannot be null, for an address has no null."""
    if "anyOf" not in schema:
        return schema
    (kind,) = (part for part in schema["anyOf"] if part.get("type") != "null")
    return {**{key: value for key, value in schema.items() if key != "anyOf"}, **kind}


def _whole(content: dict[str, Any]) -> dict[str, Any]:
    return {kind: {"schema": _sent(about["schema"])} for kind, about in content.items()}


def page(made: Mapping[str, Any]) -> str:
    """The document as one HTML page."""
    groups: dict[str, list[str]] = {}
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            tag = (operation.get("tags") or ["other"])[-1]
            groups.setdefault(tag, []).append(_operation(method, path, operation, made))
    parts = "".join(f"<h2 id='{_e(tag)}'>{_e(tag)}</h2>{''.join(found)}" for tag, found in groups.items())
    index = " · ".join(f"<a href='#{_e(tag)}'>{_e(tag)}</a>" for tag in groups)
    shapes = "".join(_shape(name, shape) for name, shape in sorted(made["components"]["schemas"].items()))
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>ManyDesks API</title>"
        f"<meta name='viewport' content='width=device-width'><style>{STYLE}</style></head><body>"
        f"<h1>ManyDesks API <span class='dim'>{_e(made['info']['version'])}</span></h1>"
        f"<p>{_prose(made['info']['description'])}</p><p><a href='openapi.json'>openapi.json</a> has all of this for "
        f"programs.</p><p>{index} · <a href='#shapes'>shapes</a></p>{parts}<h2 id='shapes'>shapes</h2>{shapes}"
        "</body></html>"
    )


def _operation(method: str, path: str, operation: Mapping[str, Any], made: Mapping[str, Any]) -> str:
    parameters = "".join(_parameter(parameter) for parameter in operation.get("parameters", ()))
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    answers = "".join(_answer(status, answer) for status, answer in operation["responses"].items())
    return (
        f"<article><h3><b>{_e(method.upper())}</b> <code>{_e(path)}</code></h3><p>{_e(operation.get('summary', ''))}. "
        f"{_prose(operation.get('description', ''))}</p>"
        + (f"<table>{parameters}</table>" if parameters else "")
        + (f"<p>Body: {_type(body)}</p>" if body else "")
        + f"<details><summary>Answers</summary><table>{answers}</table></details></article>"
    )


def _parameter(parameter: Mapping[str, Any]) -> str:
    needed = " class='needed'" if parameter.get("required") else ""
    return (
        f"<tr><td{needed}><code>{_e(parameter['name'])}</code></td><td class='dim'>{_e(parameter['in'])}</td>"
        f"<td>{_type(parameter['schema'])}</td><td>{_prose(parameter.get('description', ''))}</td></tr>"
    )


def _answer(status: str, answer: Mapping[str, Any]) -> str:
    kinds = " ".join(_type(content.get("schema", {})) for content in answer.get("content", {}).values())
    return f"<tr><td>{_e(status)}</td><td>{kinds}</td><td>{_prose(answer.get('description', ''))}</td></tr>"


def _shape(name: str, shape: Mapping[str, Any]) -> str:
    needed = set(shape.get("required", ()))
    rows = "".join(
        f"<tr><td{' class=needed' if key in needed else ''}><code>{_e(key)}</code></td><td>{_type(value)}</td>"
        f"<td>{_prose(value.get('description', ''))}</td></tr>"
        for key, value in shape.get("properties", {}).items()
    )
    about = f"<h3>{_e(name)}</h3><p>{_prose(shape.get('description', ''))}</p>"
    return f"<article id='{_e(name)}'>{about}<table>{rows}</table></article>"


def _type(schema: Mapping[str, Any]) -> str:
    return " or ".join(dict.fromkeys(_types(schema))) or "anything"


def _types(schema: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        yield f"<a href='#{_e(name)}'>{_e(name)}</a>"
    elif "anyOf" in schema:
        for part in schema["anyOf"]:
            yield from _types(part)
    elif "enum" in schema:
        yield " | ".join(f"<code>{_e(json.dumps(value))}</code>" for value in schema["enum"])
    elif schema.get("type") == "array":
        yield f"list of {_type(schema.get('items', {}))}"
    elif schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        yield f"object of {_type(schema['additionalProperties'])}"
    elif "type" in schema:
        bounds = {"minimum": "from", "maximum": "to", "maxLength": "at most", "default": "default"}
        said = ", ".join(f"{word} {_e(json.dumps(schema[key]))}" for key, word in bounds.items() if key in schema)
        yield _e(schema["type"]) + (f" <span class='dim'>({said})</span>" if said else "")


def _prose(text: str) -> str:
    """Text with `code` in it."""
    parts = html.escape(" ".join(text.split())).split("`")
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))


def _e(text: object) -> str:
    return html.escape(str(text))
