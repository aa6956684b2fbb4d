"""Where in a user's C++ or CUDA file a kernel stands for what is there, and what it gets; SettingsError where that
cannot be seen."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graph.export.accepted import Accepted
from tools.errors import SettingsError
from tools.languages.cpp_source import ENTRY, CppSource, node_text
from tools.tasks.launches import SIZE, THREADS, CudaFile, Function

if TYPE_CHECKING:
    from tree_sitter import Node


def far(kernel: Accepted, why: str) -> SettingsError:
    """The refusal, with what to do instead."""
    other = "torch-ext" if kernel.compiled else "python"
    return SettingsError(f"--format patch: {kernel.own_name}: {why}; call the kernel by hand, of --format {other}")


class Place:
    """Where in the user's file the kernel stands for what is there, and what it gets."""

    node: Node
    """A launch's statement, or the body of a function."""
    names: dict[str, str]
    """Argument of the kernel -> as it is written there."""
    conditions: list[str]
    """What must hold besides, in C++."""

    def __init__(self, kernel: Accepted, own: str) -> None:
        self.kernel, self.own, self.conditions = kernel, CudaFile(own), []
        self.begun = CudaFile(kernel.task.baseline or "")
        self.solve = next(f for f in self.begun.functions if f.name == ENTRY)
        asked = {p.name for p in self.solve.parameters}
        if any(f.name == ENTRY for f in self.own.functions):
            host = self._one(ENTRY)
            self.names = {a.name: b.name for a, b in zip(self.solve.parameters, host.parameters, strict=False)}
        elif self.solve.launches:
            host = self._launching()
        else:
            calls = [n for n in self.begun.calls(self.solve) if any(_called(n) == f.name for f in self.own.functions)]
            if len(calls) != 1:
                raise far(kernel, "there is no one function in it that the kernel could stand for")
            host = self._one(_called(calls[0]))
            self._passed(_arguments(calls[0]), host, asked)
        self._unchanged(host)
        self.node = self._statement(host)

    def _one(self, name: str) -> Function:
        found = [f for f in self.own.functions if f.name == name]
        if len(found) != 1 or found[0].templates:
            raise far(self.kernel, f"{name} is a template, or there are several of it")
        return found[0]

    def _passed(self, given: list[str], host: Function, asked: set[str]) -> None:
        """What `solve` gives to the user's launcher: its own arguments, numbers that the guard asks for, and how
        many threads."""
        if len(given) != len(host.parameters):
            raise far(self.kernel, f"the run called {host.name} without all of its arguments")
        self.names = {written: p.name for written, p in zip(given, host.parameters, strict=True) if written in asked}
        for written, p in zip(given, host.parameters, strict=True):
            if re.fullmatch(r"-?[\d.]+f?|true|false", written):
                self.conditions.append(f"{p.name} == {written}")
            elif written not in asked and not THREADS.search(p.name):
                raise far(self.kernel, f"{host.name} takes {p.name!r}, which the kernel does not")

    def _unchanged(self, host: Function) -> None:
        """Neither the host function nor device code has become another since the run began; what was cut is looked
        at by `_launching`."""
        before = {f.name: " ".join(node_text(f.node).split()) for f in self.begun.functions}
        for function in self.own.functions:
            compared = (
                function.kernel
                or function.name == host.name
                or "__device__" in node_text(function.node).partition("{")[0]
            )
            if (
                compared
                and function.name in before
                and before[function.name] != " ".join(_joined(node_text(function.node)).split())
            ):
                raise far(
                    self.kernel, f"{function.name} has changed since the run began with it; put it back or run again"
                )

    def _statement(self, host: Function) -> Node:
        """The one launch where there is one, else the body, which must do nothing behind its work that a return
        would leave out."""
        if len(host.launches) == 1:
            node: Node | None = host.launches[0]
            self.conditions += [f"static_cast<cudaStream_t>({s}) == nullptr" for s in _streams(host)]
            changed = {*CppSource(self.own.source, "cuda").written_names(host.node)} & {p.name for p in host.parameters}
            if host.plain and changed:
                raise far(self.kernel, f"{host.name} changes {min(changed)!r} before it launches")
            parent = node.parent if node is not None else None
            while node is not None and node.type != "function_definition":
                if node.type == "lambda_expression":
                    raise far(self.kernel, f"{host.name} launches in a lambda, whose types may differ")
                node = node.parent
            if parent is None or parent.type != "expression_statement":
                raise far(self.kernel, f"{host.name} launches within an expression")
            return parent
        body, kind = host.node.child_by_field_name("body"), host.node.child_by_field_name("type")
        if (
            body is None
            or kind is None
            or node_text(kind) != "void"
            or "Synchronize" in node_text(body)
            or _streams(host)
        ):
            raise far(self.kernel, f"{host.name} returns something, waits for the device, or launches on a stream")
        return body

    def _launching(self) -> Function:
        """The host function whose one launch was repeated in `solve`. What the launch is given besides the kernel's
        arguments must be what the run took it for: declared once, in the same words."""
        launch = self.solve.launches[0]
        hosts = [
            f for f in self.own.functions if not f.kernel and any(_called(n) == _called(launch) for n in f.launches)
        ]
        if len(self.solve.launches) != 1 or len(hosts) != 1 or len(hosts[0].launches) != 1 or hosts[0].templates:
            raise far(self.kernel, "there is no one launch in it that the kernel could stand for")
        host, node = hosts[0], hosts[0].launches[0]
        asked, theirs, ours = (
            {p.name for p in self.solve.parameters},
            dict(self.own.declared(host)),
            dict(self.begun.declared(self.solve)),
        )
        changed = {*CppSource(self.own.source, "cuda").written_names(host.node)}
        self.names = {
            inner: outer for inner, outer in zip(_arguments(launch), _arguments(node), strict=False) if inner in asked
        }
        known = {p.name for p in host.parameters} | {*theirs}
        for name in asked - {*self.names}:
            size = re.fullmatch(r"(\w+)_(?:size(\d+)|numel)", name)
            if name in known:
                self.names[name] = name
            elif size and size[1] in known:
                self.names[name] = f"{size[1]}.size({size[2]})" if size[2] else f"{size[1]}.numel()"
        written = [(i, o) for i, o in zip(_arguments(launch), _arguments(node), strict=False) if i not in asked]
        written += list(zip(_grid(launch)[:3], _grid(node)[:3], strict=False))
        while written:
            inner, outer = written.pop()
            if _plain(inner) != _plain(outer):
                raise far(self.kernel, f"the run took {' '.join(outer.split())!r} for {' '.join(inner.split())!r}")
            for name in {*re.findall(r"(?<![.\w])[A-Za-z_]\w*", inner)} & {*ours} - asked:
                if name not in theirs or name in changed:
                    raise far(self.kernel, f"{host.name} changes {name!r}, which the kernel does not take")
                run = ours.pop(name)
                written.append((run.value or run.written, theirs[name].value or theirs[name].written))
        return host


def _called(call: Node) -> str:
    return re.sub(r"<.*", "", node_text(call.child_by_field_name("function") or call), flags=re.DOTALL)


def _arguments(call: Node) -> list[str]:
    listed = call.child_by_field_name("arguments")
    return [node_text(c) for c in listed.named_children if c.type != "comment"] if listed is not None else []


def _grid(launch: Node) -> list[str]:
    """Between the angles of a launch: blocks, threads, shared memory, stream."""
    syntax = next(node_text(c) for c in launch.children if c.type == "kernel_call_syntax")
    return [part.strip() for part in re.split(r",(?![^(<]*[)>])", syntax.removeprefix("<<<").removesuffix(">>>"))]


def _streams(host: Function) -> list[str]:
    """The streams of its launches, as they are written."""
    return [
        s
        for s in dict.fromkeys(one for n in host.launches for one in _grid(n)[3:])
        if s not in ("0", "nullptr", "NULL")
    ]


def _plain(written: str) -> str:
    """An expression with sizes of tensors by the names that `solve` has for them, in one spelling."""
    named = SIZE.sub(lambda m: f"{m[1]}_size{m[2] or m[3]}" if m[2] or m[3] else f"{m[1]}_numel", written)
    return "".join(_joined(named).split())


def _joined(source: str) -> str:
    return re.sub(r"[ \t]*\\\n[ \t]*", " ", source)
