"""Answers as constrained decoding can have them: no free maps, no optional keys. What comes back is put into our own form. Pure.

Servers that decode by a schema (`output_config.format` of Anthropic, `json_schema` with `strict` of OpenAI) close every object: names
that the schema does not list cannot be written. A map such as `Draft.knobs` therefore travels as a list of name and value.
"""

from __future__ import annotations

import json

from pydantic import JsonValue

Schema = dict[str, JsonValue]

PAIRS = "A list of name and value, each name once."


def wire(schema: Schema, *, pairs: bool = True) -> Schema:
    """`schema` (as pydantic writes it) for the wire: maps are lists of pairs, objects are closed, each key is required.

    Where all keys may be left out, llama.cpp lets a model end at `{ }`. Defaults and generated titles are left out: they are tokens that
    tell the model nothing. Constraints stay, for the provider to move where its server wants them. `pairs`: False where the server takes
    maps as they are.
    """
    found: Schema = {key: value for key, value in schema.items() if key not in ("default", "title", "discriminator")}
    for key in ("$defs", "properties"):
        if isinstance(inner := found.get(key), dict):
            found[key] = {name: wire(each, pairs=pairs) for name, each in inner.items() if isinstance(each, dict)}
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        if isinstance(variants := found.get(key), list):
            found[key] = [wire(each, pairs=pairs) for each in variants if isinstance(each, dict)]
    if isinstance(items := found.get("items"), dict):
        found["items"] = wire(items, pairs=pairs)
    if found.get("type") != "object":
        return found
    values = _values(found)
    if values is None:
        return found | {"required": list(_properties(found)), "additionalProperties": False}
    if not pairs:
        return found | {"additionalProperties": wire(values, pairs=False)}
    said = found.get("description")
    pair: Schema = {"name": {"type": "string"}, "value": wire(values)}
    return {
        "type": "array",
        "description": f"{said} {PAIRS}" if said else PAIRS,
        "items": {"type": "object", "properties": pair, "required": ["name", "value"], "additionalProperties": False},
    }


def plain(text: str, schema: Schema) -> str:
    """`text`, an answer by `wire(schema)`, as one by `schema`; what is not JSON, or by `schema` already, stays as it is."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    definitions = schema.get("$defs")
    return json.dumps(_plain(value, schema, definitions if isinstance(definitions, dict) else {}), ensure_ascii=False)


def _plain(value: JsonValue, schema: Schema, definitions: Schema) -> JsonValue:
    reference = schema.get("$ref")
    if isinstance(reference, str):
        named = definitions.get(reference.removeprefix("#/$defs/"))
        return _plain(value, named, definitions) if isinstance(named, dict) else value
    for key in ("anyOf", "oneOf", "allOf"):
        variants = schema.get(key)
        for variant in variants if isinstance(variants, list) else ():
            if isinstance(variant, dict):
                value = _plain(value, variant, definitions)
    items, values, properties = schema.get("items"), _values(schema), _properties(schema)
    if isinstance(value, list) and isinstance(items, dict):
        return [_plain(each, items, definitions) for each in value]
    if values is not None and isinstance(value, list) and all(_is_pair(each) for each in value):
        value = {str(each["name"]): each["value"] for each in value if isinstance(each, dict)}
    if isinstance(value, dict):
        inner = {name: each if isinstance(each := properties.get(name, values), dict) else {} for name in value}
        return {name: _plain(each, inner[name], definitions) for name, each in value.items()}
    return value


def _values(schema: Schema) -> Schema | None:
    """What a free map holds; None: `schema` is none."""
    values = schema.get("additionalProperties")
    if schema.get("type") != "object" or _properties(schema) or values is False:
        return None
    return values if isinstance(values, dict) else {"type": "string"}


def _properties(schema: Schema) -> Schema:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _is_pair(value: JsonValue) -> bool:
    return isinstance(value, dict) and value.keys() == {"name", "value"}
