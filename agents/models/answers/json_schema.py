"""Schemas of answers as constrained decoding can have them: closed objects, no optional keys, no free maps. Pure.

Servers that decode by a schema (`output_config.format` of Anthropic, `json_schema` with `strict` of OpenAI) close every
object: names that the schema does not list cannot be written, so that a map such as `PlannedMethod.signature` cannot
either.
"""

from __future__ import annotations

from pydantic import JsonValue

Schema = dict[str, JsonValue]


def wire(schema: Schema, *, maps: bool) -> Schema:
    """`schema` (as pydantic writes it) for the wire: objects are closed, each key is required.

    Where all keys may be left out, llama.cpp lets a model end at `{ }`. Defaults and generated titles are left out:
    they are tokens that tell the model nothing. Constraints stay, for the provider to move where its server wants them.
    `maps`: whether the server takes maps as they are; else a property that is one keeps its default.
    """
    found: Schema = {key: value for key, value in schema.items() if key not in ("default", "title", "discriminator")}
    for key in ("$defs", "properties"):
        if isinstance(inner := found.get(key), dict):
            kept = {
                name: each for name, each in inner.items() if isinstance(each, dict) and (maps or not _is_map(each))
            }
            found[key] = {name: wire(each, maps=maps) for name, each in kept.items()}
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        if isinstance(variants := found.get(key), list):
            found[key] = [wire(each, maps=maps) for each in variants if isinstance(each, dict)]
    if isinstance(items := found.get("items"), dict):
        found["items"] = wire(items, maps=maps)
    if found.get("type") != "object" or _is_map(found):
        return found
    properties = found.get("properties")
    return found | {"required": list(properties) if isinstance(properties, dict) else [], "additionalProperties": False}


def _is_map(schema: Schema) -> bool:
    """Whether any name may stand in the object."""
    return (
        schema.get("type") == "object"
        and not schema.get("properties")
        and schema.get("additionalProperties") is not False
    )
