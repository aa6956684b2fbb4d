"""Converts schemas of answers for constrained decoding: closed objects, no optional keys, no free maps. Pure.

Servers that decode by a schema (`output_config.format` of Anthropic, `json_schema` with `strict` of OpenAI) close every
object: a model can only write keys that the schema lists, and so no map such as `PlannedMethod.signature`.
"""

from __future__ import annotations

from pydantic import JsonValue

Schema = dict[str, JsonValue]


def close_schema(schema: Schema, *, maps: bool) -> Schema:
    """Return `schema` (as pydantic writes it) with closed objects in which every key is required.

    If all keys were optional, llama.cpp would let a model end at `{ }`. Defaults and generated titles are removed:
    they are tokens without information for the model. Constraints stay; the provider moves them where its server wants
    them. `maps`: whether the server supports maps; if not, a property that is a map is left out and keeps its default.
    """
    closed: Schema = {key: value for key, value in schema.items() if key not in ("default", "title", "discriminator")}
    for key in ("$defs", "properties"):
        if isinstance(inner := closed.get(key), dict):
            kept_properties = {
                name: each for name, each in inner.items() if isinstance(each, dict) and (maps or not _is_map(each))
            }
            closed[key] = {name: close_schema(each, maps=maps) for name, each in kept_properties.items()}
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        if isinstance(variants := closed.get(key), list):
            closed[key] = [close_schema(each, maps=maps) for each in variants if isinstance(each, dict)]
    if isinstance(items := closed.get("items"), dict):
        closed["items"] = close_schema(items, maps=maps)
    if closed.get("type") != "object" or _is_map(closed):
        return closed
    properties = closed.get("properties")
    return closed | {
        "required": list(properties) if isinstance(properties, dict) else [],
        "additionalProperties": False,
    }


def _is_map(schema: Schema) -> bool:
    """Return whether the object may have arbitrary keys."""
    return (
        schema.get("type") == "object"
        and not schema.get("properties")
        and schema.get("additionalProperties") is not False
    )
