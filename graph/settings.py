"""One YAML file is one run. Unknown keys are refused by name; every default can be read here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agents.artifacts import RoleName
from agents.models.ledger import ModelCaps, format_seconds
from agents.models.prices import Price
from tools.cli.validation import read_yaml, validation_sentences, yaml_fault
from tools.contracts.inference import SourceNames, default_task_name
from tools.errors import SettingsError
from tools.gate.judge_settings import JudgeSettings


class Section(BaseModel):
    """Base of all sections."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Figures(Section):
    """Base of those that hold figures and switches alone: neither is read out of text, nor `true` as 1."""

    model_config = ConfigDict(strict=True)


class ModelChoice(BaseModel):
    """Who answers for a role; other keys are the provider's own options."""

    model_config = ConfigDict(frozen=True, extra="allow")

    provider: str = "playbook"
    """Who answers: playbook, anthropic, openai_compatible, command, manual, recorded, or your own as
    package.module:Class."""

    def below(self, base: Path) -> ModelChoice:
        """With the files that its options name taken relative to `base`."""
        named = {
            name: value
            for name, value in (self.model_extra or {}).items()
            if name in MODEL_FILES and isinstance(value, str)
        }
        return self.model_copy(update={name: str((base / value).resolve()) for name, value in named.items() if value})


class ExecutorChoice(BaseModel):
    """Where jobs run; other keys are the executor's own options."""

    model_config = ConfigDict(frozen=True, extra="allow")

    kind: str = "local"
    """local, or your own executor as package.module:Class; `executor: local` is short for `executor: {kind: local}`."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: object) -> object:
        return {"kind": value} if isinstance(value, str) else value


SOURCES = (".cpp", ".cc", ".cxx", ".c", ".h", ".hpp", ".cu", ".py")
"""How files end that people take for a config because a kernel is in them."""
ELSEWHERE = {
    "workloads": "list them in the task's reference.py",
    "bytes": "put it beside the workload's dims in reference.py",
    **dict.fromkeys(
        ("weights", "margins"), "put it into the task folder's task.yaml, or beside the workload's dims in reference.py"
    ),
}
"""Keys of a task that people write into a config -> where they go."""
MODEL_FILES = ("path", "folder", "record")
"""Options of providers that name a file or a folder."""


class Search(Figures):
    """How the loop explores."""

    iterations: int = Field(default=8, ge=1)
    """Cap on iterations after v0."""
    candidates: int = Field(default=4, ge=1, le=16)
    """Candidates judged in an iteration (K)."""
    methods_per_iteration: int = Field(default=3, ge=1, le=3)
    """1 is the discipline of one variable at a time."""
    methods_per_axis: int = Field(default=2, ge=1, le=3)
    """Of those so many at most on one axis (compute, memory, latency, occupancy), unless the plan says why more."""
    repair_rounds: int = Field(default=3, ge=0)
    """How often a plan whose candidates all failed is written again with the failures shown."""
    fix_rounds: int = Field(default=2, ge=0)
    """How often a language model is shown which of its drafts do not compile or are wrong, before any is judged."""
    tool_rounds: int = Field(default=24, ge=0)
    """Rounds of tool calls that a coder may take for one answer, where its provider can call tools; 0: it is offered
    none."""
    patience: int = Field(default=2, ge=1)
    """Iterations without an accepted version before the run stops."""


class Stop(Figures):
    """When the result is good enough."""

    near_peak: float = Field(default=0.15, ge=0, le=1)
    """Stop when 1 - roof time / measured time falls below this, unless torch is shown faster."""
    target_fraction: float = Field(default=0.90, gt=0, le=1)
    """Stop at this share of the roof, the absolute target (E2), unless torch is shown faster."""
    speedup: float | None = Field(default=None, gt=1)
    """Stop at this speed-up over v0."""


class Budget(ModelCaps):
    """Caps of the run. Reaching one ends the run in order, with exit code 3.

    Those on dollars and tokens are looked at before each exchange with a model, which is not begun when it could pass
    one; those on time before each job and exchange, which are given no more of it than is left.
    """

    wall_s: float = Field(default=3600, gt=0, allow_inf_nan=False)
    """Seconds, over all processes of the run; v0, the final benchmark and the report are never cut."""
    device_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Seconds that jobs may take on the device (on a CPU: all jobs); None: no cap. v0 counts first, and what the
    final benchmark will take is kept for it, as estimated; neither is ever refused."""

    def named(self) -> dict[str, str]:
        """Each cap that is set, by its key, as people read it."""
        found = {"wall_s": format_seconds(self.wall_s)}
        found |= {"device_s": format_seconds(self.device_s)} if self.device_s else {}
        found |= {"usd": f"${self.usd:,g}"} if self.usd else {}
        found |= {"tokens": f"{self.tokens:,} tokens"} if self.tokens else {}
        return found

    def passed(self, wall_s: float, device_s: float | None) -> tuple[str, ...]:
        """By how much a run passed its caps on time, one sentence each."""
        spent = (("device_s", device_s, self.device_s), ("wall_s", wall_s, self.wall_s))
        return tuple(
            f"budget.{name} was passed by {taken - cap:.1f} s: v0 and the final benchmark are never cut"
            for name, taken, cap in spent
            if taken is not None and cap is not None and taken > cap
        )


class Benchmark(Figures):
    """Whom v0 and the final benchmark are timed beside."""

    eager: bool = True
    """The reference under torch as it is."""
    compile: bool = True
    """Under torch.compile; on a GPU max-autotune, too."""
    rivals: str | None = None
    """A Python file of what other libraries compute the same with, relative to this file (docs/scores.md)."""

    @property
    def frameworks(self) -> tuple[Literal["eager", "compile"], ...]:
        """Those that are included."""
        every: tuple[Literal["eager", "compile"], ...] = ("eager", "compile")
        return tuple(name for name in every if getattr(self, name))

    @model_validator(mode="after")
    def _together(self) -> Benchmark:
        if self.rivals and not self.frameworks:
            raise ValueError("rivals: are timed beside torch; set eager or compile to true, or leave rivals out")
        return self


class Settings(Section):
    """A whole run."""

    name: str | None = None
    """Of the task, in titles too, and of the workspace; default: the name of the task's folder or of the kernel's
    file."""
    task: str | None = None
    """Folder with reference.py and the kernel, relative to this file."""
    kernel: str | None = None
    """Instead of `task`: a kernel file …"""
    reference: str | None = None
    """… its reference.py …"""
    dims: str | None = None
    """… and the sizes, e.g. "M=512 N=1000"."""
    pointer_elements: int = Field(default=0, ge=0, strict=True)
    """Seed style: elements of each pointer buffer; 0: the product of the two largest dims."""
    trace: str | None = None
    """A trace of launches, JSON lines or CSV, whose sizes are timed in place of the task's own workloads, weighted
    by their launches (docs/your-kernel.md)."""
    tolerance: Literal["capped", "as_stated"] = "capped"
    """Whether the reference's rtol and atol hold up to the judge's caps only, or as they are, which report and
    commits then show."""
    hardware: str | None = None
    """Product to look up in the gpu-wiki, e.g. "H200"; default: the device's reported name."""
    variant: str = ""
    """Its form, where the wiki has several, e.g. "SXM5"."""
    models: dict[Literal["default", RoleName], ModelChoice] = {"default": ModelChoice()}
    """Per role: planner, coder, profiler_analyst, knowledge_retriever, gatekeeper, or default."""
    search: Search = Search()
    """How the loop explores."""
    stop: Stop = Stop()
    """When the result is good enough."""
    budget: Budget = Budget()
    """Caps on time, tokens and dollars; reaching one ends the run in order."""
    prices: dict[str, Price] = Field(default_factory=dict)
    """Model -> USD per million tokens (`input`, `output`, `cache_read`, …), before those in
    agents/models/prices.yaml; 0 for a server of your own."""
    judge: JudgeSettings = JudgeSettings()
    """How hard the judge looks and what the gate demands."""
    benchmark: Benchmark = Benchmark()
    """Whom the final benchmark includes beside baseline and best."""
    profilers: tuple[str, ...] | None = None
    """Default: those that fit the device of the task's language (`DEFAULT_PROFILERS` in tools/profilers/base.py)."""
    handlers: tuple[str, ...] = ()
    """Your own classes for shapes of kernels, `package.module:Class` each, asked after those in agents/handlers
    (docs/model-options.md)."""
    executor: ExecutorChoice = ExecutorChoice()
    """Where jobs run, and the executor's own options."""
    gpu: int | None = Field(default=None, ge=0, strict=True)
    """Index of the GPU that jobs run on, as nvidia-smi counts; default: the first that nobody uses."""
    clocks: Literal["observe", "lock"] = "observe"
    """Whether the GPU's clocks are only watched, or locked while the run goes on where this user may (root); the
    environment says which."""
    gpu_wiki_path: str | None = None
    """Another gpu-wiki than the bundled one."""
    reference_projects: str | None = None
    """Folder of projects that retrieval searches beside the wiki, e.g. clones of kernel libraries; only read."""
    embedder: str | None = None
    """Turns passages into vectors: minilm, none, or your own as package.module:Class; default: none, search by words."""
    chroma: str | None = None
    """URL of a Chroma server that holds the vectors; default: a folder under $KERNELWRIGHT_HOME."""
    on_unknown: Literal["continue", "ask", "stop"] = "continue"
    """What a hardware number that the wiki lacks does to the run; `ask` asks whoever sits at the terminal, and stops
    where nobody does."""
    workspaces: str = "workspaces"
    """Where workspaces are made, relative to the current folder."""
    linked_to: str | None = None
    """The workspace and version that this run continues (set by `restart`)."""

    @model_validator(mode="after")
    def _together(self) -> Settings:
        wrong = []
        if (self.task is None) == (self.kernel is None):
            wrong.append("exactly one of task (a folder) and kernel (a file, with reference and dims) must be given")
        elif self.kernel is not None and self.reference is None:
            wrong.append(
                "reference: must name the reference.py that goes with kernel; `python -m graph init KERNEL` begins one"
            )
        beside = next(
            (name for name in ("reference", "dims", "pointer_elements") if self.task and getattr(self, name)), None
        )
        if beside:
            wrong.append(
                f"{beside}: goes with kernel; a task folder's sizes and reference stand in its reference.py, so "
                f"leave it out"
            )
        if wrong:
            raise ValueError("\n".join(wrong))
        return self

    @property
    def run(self) -> str:
        """What names of its workspaces begin with."""
        return self.name or (Path(self.task).stem if self.task else default_task_name(Path(self.kernel or "run")))

    def model_for(self, role: RoleName) -> dict[str, Any]:
        """The config entry of a role, or the default one."""
        choice = self.models.get(role) or self.models.get("default") or ModelChoice()
        return choice.model_dump()

    @property
    def planned_by(self) -> str:
        """The planner's model; its provider where the config names none."""
        choice = self.model_for("planner")
        return str(choice.get("model") or choice["provider"])

    def sources(self, suffix: str) -> SourceNames:
        """How the user calls the kernel (in a task folder `kernel<suffix>`) and its reference."""
        return SourceNames(Path(self.kernel or f"kernel{suffix}").name, Path(self.reference or "reference.py").name)


def load(path: Path) -> Settings:
    """Read a config; paths in it become absolute, relative to the file. SettingsError names the key or file.

    A folder that holds a task stands for the config of which `task` is the only key.
    """
    import yaml

    if path.is_dir():
        return _folder(path)
    if path.is_file() and path.suffix in SOURCES:
        raise SettingsError(
            f"{path}: is source and no config; give `--kernel` and `--ref` with its two files, or the folder that "
            f"holds both of them; "
            "`python -m graph init FILE` makes one around a kernel, and a KernelBench file goes with --problem"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SettingsError(
            f"{path}: no such config or task folder; give a YAML file such as configs/quickstart.yaml, or a folder "
            f"with reference.py"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else f"not UTF-8 at byte {error.start}"
        raise SettingsError(f"{path}: cannot be read ({why}); give a readable UTF-8 YAML file") from error
    try:
        data = read_yaml(text)
    except yaml.YAMLError as error:
        raise SettingsError(yaml_fault(path, error)) from error
    if not isinstance(data, dict):
        raise SettingsError(f"{path}: must hold keys and values, e.g. `task: tasks/softmax`")
    return parse({str(k): v for k, v in data.items()}, origin=str(path), base=path.parent)


def _folder(path: Path) -> Settings:
    """The run of a task folder under all defaults; SettingsError where a folder holds no task."""
    if (path / ".kernelwright").is_dir():
        raise SettingsError(
            f"{path}: is a run's workspace; `python -m graph resume {path}` goes on with it, `restart` begins from "
            f"one of its versions"
        )
    if (path / "reference.py").exists() or any(path.glob("kernel.*")):
        return parse({"task": "."}, origin=str(path), base=path)
    raise SettingsError(
        f"{path}: is a folder without a task (reference.py and a kernel); name one that holds these, or a YAML "
        f"file such as "
        "configs/quickstart.yaml"
    )


def parse(data: dict[str, Any], *, origin: str, base: Path) -> Settings:
    """Validate `data`; task, kernel, reference, wiki and models' paths are taken relative to `base`."""
    try:
        settings = Settings.model_validate(data)
    except ValidationError as error:
        raise SettingsError(validation_sentences(error, Settings, f"{origin}: ", ELSEWHERE)) from None
    paths = {"task", "kernel", "reference", "trace", "gpu_wiki_path", "reference_projects"}
    given = {name: getattr(settings, name) for name in paths}
    absolute: dict[str, Any] = {name: str((base / value).resolve()) for name, value in given.items() if value}
    absolute["models"] = {role: choice.below(base) for role, choice in settings.models.items()}
    if settings.benchmark.rivals:
        absolute["benchmark"] = settings.benchmark.model_copy(
            update={"rivals": str((base / settings.benchmark.rivals).resolve())}
        )
    return settings.model_copy(update=absolute)
