"""Makes `examples/client.ts` and `examples/client.sh` from the service's OpenAPI text, for people without Python."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from belated.service import openapi  # noqa: E402

DOCUMENT = openapi.document()
#: What the description writes in the place of a ticket, in a text and in a path.
TICKET, IN_PATH = '"..."', "{ticket}"

HEAD = """\
// The belated service from TypeScript: browsers, Node, Deno. Made from its OpenAPI text by tools/other_languages.py.
//
//     const service = new Belated("http://127.0.0.1:8000", token);
//     const key = { "Idempotency-Key": crypto.randomUUID() }; // the same again gets the same decision again
//     const decision = (await service.postDecisions("ads", {}, key)) as Decision;
//     await service.postFeedback("ads", { ticket: decision.ticket, value: 1.0 }); // whenever it is known
"""
FAILURE = """\
/** What the service refused: `kind` is for programs, `status` is HTTP's, `retryAfter` is in seconds. */
export class BelatedError extends Error {
  kind{: string};
  status{: number};
  retryAfter{: number};

  constructor(kind{: string}, message{: string}, status{: number}, retryAfter{: number}) {
    super(message);
    this.kind = kind;
    this.status = status;
    this.retryAfter = retryAfter;
  }
}
"""
CLIENT = """\
export class Belated {
  url{: string};
  token{: string | undefined};

  constructor(url{: string}, token{?: string}) {
    this.url = url.replace(/\\/+$/, "");
    this.token = token;
  }

  {private }async ask{<Answer>}(method{: string}, path{: string}, body{?: unknown}, more{: object} = {})\
{: Promise<Answer>} {
    const headers{: Record<string, string>} = { ...more };
    if (body !== undefined) headers["content-type"] = "application/json";
    if (this.token) headers.authorization = `Bearer ${this.token}`;
    const answer = await fetch(this.url + path, { method, headers, body: JSON.stringify(body) });
    const json = (answer.headers.get("content-type") ?? "").startsWith("application/json");
    const said = json ? await answer.json() : await answer.text();
    if (answer.ok) return said;
    const { kind, message } = said.error ?? { kind: "unexpected", message: String(said) };
    throw new BelatedError(kind, message, answer.status, Number(answer.headers.get("retry-after") ?? 0));
  }
"""


def named(schema: str) -> str:
    """What a schema is called: Error is something else there."""
    return "Failure" if schema == "Error" else schema


def schema_type(schema: dict[str, Any]) -> str:
    """A schema as TypeScript writes it."""
    if "$ref" in schema:
        return named(str(schema["$ref"]).rpartition("/")[2])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " | ".join(dict.fromkeys(map(schema_type, schema[key])))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(dict.fromkeys(schema_type({**schema, "type": one}) for one in kind))
    if kind == "array":
        if "prefixItems" in schema:
            return f"[{', '.join(map(schema_type, schema['prefixItems']))}]"
        return f"Array<{schema_type(schema.get('items') or {})}>"
    if kind == "object":
        return _object(schema)
    known = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean", "null": "null"}
    return known.get(str(kind), "unknown")


def _object(schema: dict[str, Any]) -> str:
    if not schema.get("properties"):
        return "Record<string, unknown>"
    needed = schema.get("required", ())
    parts = [f"{name}{'' if name in needed else '?'}: {schema_type(one)}" for name, one in schema["properties"].items()]
    return f"{{ {'; '.join(parts)} }}"


def called(method: str, path: str) -> str:
    """What an operation is called.

    >>> called("post", "/v1/experiments/{name}/decisions"), called("get", "/v1/experiments/{name}")
    ('postDecisions', 'getExperiment')
    """
    parts = path.strip("/").split("/")
    word = next(part for part in reversed(parts) if not part.startswith("{"))
    one = word.removesuffix("s") if parts[-1].startswith("{") else word
    return method + one[0].upper() + one[1:].partition(".")[0]


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    """Every path with its methods; what deletes comes last."""
    found = [(method, path, one) for path, methods in DOCUMENT["paths"].items() for method, one in methods.items()]
    return sorted(found, key=lambda each: each[0] == "delete")


def typescript(typed: bool = True) -> str:
    """The client; without its types it is JavaScript."""
    parts = [HEAD]
    if typed:
        for name, schema in DOCUMENT["components"]["schemas"].items():
            parts.append(f"export type {named(name)} = {schema_type(schema)};")
        parts.append("")
    parts += [_written(FAILURE, typed), _written(CLIENT, typed)]
    parts += [_written(_method(*each), typed) for each in operations()]
    return "\n".join(parts) + "}\n"


def _written(text: str, typed: bool) -> str:
    """Types stand in braces: they are written or left out."""
    return re.sub(r"\{((?:\??: |<)[^{}]*(?:\{[^{}]*\}[^{}]*)*|private )\}", r"\1" if typed else "", text)


def _method(method: str, path: str, one: dict[str, Any]) -> str:
    names = re.findall(r"\{(\w+)\}", path)
    given = [f"{name}{{: string}}" for name in names]
    values = [f'"{method.upper()}"', "`" + re.sub(r"\{(\w+)\}", r"${encodeURIComponent(\1)}", path) + "`"]
    body = one.get("requestBody")
    headers = [each["name"] for each in one.get("parameters", ()) if each["in"] == "header"]
    if body:
        given.append(f"body{{: {schema_type(body['content']['application/json']['schema'])}}}")
        values.append("body")
    if headers:
        given.append("headers{?: { " + "; ".join(f'"{name}"?: string' for name in headers) + " }}")
        values += ([] if body else ["undefined"]) + ["headers"]
    answers = [answer for status, answer in one["responses"].items() if status.startswith("2")]
    schemas = [content["schema"] for answer in answers for content in answer["content"].values()]
    kind = " | ".join(dict.fromkeys(one for schema in schemas for one in schema_type(schema).split(" | ")))
    text = "\n   * ".join(_lines(one["description"]))
    head = f"  /**\n   * {text}\n   */\n  {called(method, path)}({', '.join(given)})"
    return f"{head}{{: Promise<{kind}>}} {{\n    return this.ask({', '.join(values)});\n  }}\n"


def _lines(text: str, width: int = 110) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


SHELL = """\
#!/bin/sh
# The belated service from a shell. Made from its OpenAPI text by tools/other_languages.py.
#   URL=http://127.0.0.1:8000 TOKEN=belated_... sh client.sh
set -eu
URL="${URL:-http://127.0.0.1:8000}"
ask() { # METHOD PATH [BODY]
    curl --silent --show-error --request "$1" ${TOKEN:+--header "Authorization: Bearer $TOKEN"} \\
        ${3:+--header "content-type: application/json" --data "$3"} --write-out '\\n%{http_code}\\n' "$URL$2"
}
"""
NEW = """ticket=$(ask POST /v1/experiments/ads/decisions '{}' | sed -n 's/.*"ticket":"\\([0-9a-f]*\\)".*/\\1/p')"""


def shell() -> str:
    """Every operation as a command, in an order in which they can be run."""
    examples = {(entry.method, entry.path): entry.example for entry in openapi.ENTRIES}
    parts = [SHELL]
    for method, path, one in operations():
        example = examples[method, path]
        parts += [f"# {line}" for line in _lines(one["description"], 116)]
        if TICKET in example or IN_PATH in path:
            parts.append(NEW)
        where = path.replace("{name}", "ads").replace(IN_PATH, "'\"$ticket\"'")
        body = example.replace(TICKET, '"\'"$ticket"\'"')
        parts.append(f"ask {method.upper()} '{where}'" + (f" '{body}'" if example else "") + "\n")
    return "\n".join(parts)


#: What is made, by its file.
MADE = {"examples/client.ts": typescript, "examples/client.sh": shell}

if __name__ == "__main__":
    for name, make in MADE.items():
        (ROOT / name).write_text(make())
