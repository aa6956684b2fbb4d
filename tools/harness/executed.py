"""Were the kernels that the device executed in one call the candidate's own? (pure)"""

import ast
import re

PLAIN = re.compile(r"^(Memset|Memcpy|memset|memcpy)|FillFunctor|direct_copy_kernel|copy_device_to_device")
"""What torch runs to fill or copy memory: no computation."""


def jitted(source: str) -> set[str]:
    """Names of the functions that the source decorates with Triton's `jit`."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and any("jit" in re.split(r"\W", ast.unparse(d)) for d in node.decorator_list):
            found.add(node.name)
    return found


def complaint(seen: dict, source: str) -> str | None:
    """Completes "the candidate …"; None when all is well. `seen` is {kernels: names, streams: theirs, stream: the one given}."""
    own = jitted(source)
    for name, stream in zip(seen["kernels"], seen["streams"], strict=True):
        if name not in own and not PLAIN.search(name):
            return f"ran {name[:160]}, a kernel that is not its own"
        if stream != seen["stream"]:
            return f"ran {name[:160]} on another stream than the one given"
    if not own & set(seen["kernels"]):
        return "ran none of its own kernels"
    return None
