"""The settings of a run, read from one YAML file. An unknown key is an error that names it."""

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
from tools.executors.choice import ExecutorChoice
from tools.gate.judge_settings import JudgeSettings


class Section(BaseModel):
    """Base of the sections of a config: immutable, and without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StrictSection(Section):
    """Base of the sections that hold only figures and switches, which are not converted from text or from each
    other."""

    model_config = ConfigDict(strict=True)


class ModelChoice(BaseModel):
    """The model of a role; further keys are the provider's own options."""

    model_config = ConfigDict(frozen=True, extra="allow")

    provider: str = "playbook"
    """The provider of the model: playbook, anthropic, openai_compatible, command, manual, recorded, or a class of your
    own as package.module:Class."""

    def with_absolute_paths(self, base: Path) -> ModelChoice:
        """Return a copy in which the files that the options name are absolute, taken relative to `base`."""
        path_options = {
            name: value
            for name, value in (self.model_extra or {}).items()
            if name in PATH_OPTIONS and isinstance(value, str)
        }
        return self.model_copy(
            update={name: str((base / value).resolve()) for name, value in path_options.items() if value}
        )


SOURCE_SUFFIXES = (".cpp", ".cc", ".cxx", ".c", ".h", ".hpp", ".cu", ".py")
"""Suffixes of source files, which are sometimes given in place of a config."""
MISPLACED_KEYS = {
    "workloads": "list them in the task's reference.py",
    "bytes": "put it beside the workload's dims in reference.py",
    "baseline": "put it into the task folder's task.yaml",
    **dict.fromkeys(
        ("weights", "margins"), "put it into the task folder's task.yaml, or beside the workload's dims in reference.py"
    ),
}
"""Key of a task that is sometimes written into a config -> the place where it belongs."""
PATH_OPTIONS = ("path", "folder", "record")
"""Options of providers whose value is the path of a file or a folder."""


class Search(StrictSection):
    """The settings of the search for faster versions."""

    iterations: int = Field(default=8, ge=1)
    """The maximum number of iterations after v0."""
    candidates: int = Field(default=4, ge=1, le=16)
    """The number of candidates that an iteration judges (K)."""
    methods_per_iteration: int = Field(default=3, ge=1, le=3)
    """The maximum number of methods that a plan combines; 1 changes one thing at a time."""
    methods_per_axis: int = Field(default=2, ge=1, le=3)
    """The maximum number of methods in a plan that act on the same axis (compute, memory, latency, occupancy); the
    others of a plan with more are struck out."""
    repair_attempts: int = Field(default=3, ge=0)
    """The number of further attempts of the coder at a plan whose candidates all failed; the coder sees the
    failures."""
    fix_attempts: int = Field(default=2, ge=0)
    """The number of further attempts of a language model at drafts that do not compile or are wrong, before any draft
    is judged."""
    tool_turns: int = Field(default=24, ge=0)
    """The maximum number of turns with tool calls that the coder takes for one answer, if its provider supports tools;
    0 offers no tools."""
    patience: int = Field(default=2, ge=1)
    """The number of consecutive iterations without an accepted version after which the run stops."""


class Stop(StrictSection):
    """The conditions under which the result is good enough and the run stops."""

    near_peak: float = Field(default=0.15, ge=0, le=1)
    """Stop when 1 - roof time / measured time falls below this value, unless torch is shown to be faster."""
    target_fraction: float = Field(default=0.90, gt=0, le=1)
    """Stop when roof time / measured time reaches this share, the absolute target, unless torch is shown to be
    faster."""
    speedup: float | None = Field(default=None, gt=1)
    """Stop when the speed-up over v0 reaches this factor."""


class Budget(ModelCaps):
    """The caps of a run. A run that reaches a cap ends in order, with its report and exit code 3.

    The caps on dollars and tokens are checked before each exchange with a model: an exchange that could exceed one does
    not begin. The caps on time are checked before each job and exchange, which get no more time than remains.
    """

    wall_s: float = Field(default=3600, gt=0, allow_inf_nan=False)
    """Wall time in seconds, over all processes of the run; v0, the final benchmark and the report are never cut
    short."""
    device_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Seconds that jobs may take on the device (on a CPU: all jobs); None: no cap. v0 counts, and the estimated time of
    the final benchmark is reserved; neither is ever refused."""

    def caps_by_key(self) -> dict[str, str]:
        """Return key -> cap with its unit, for each cap that is set."""
        found = {"wall_s": format_seconds(self.wall_s)}
        found |= {"device_s": format_seconds(self.device_s)} if self.device_s else {}
        found |= {"usd": f"${self.usd:,g}"} if self.usd else {}
        found |= {"tokens": f"{self.tokens:,} tokens"} if self.tokens else {}
        return found

    def exceeded_caps(self, wall_s: float, device_s: float | None) -> tuple[str, ...]:
        """Return one sentence for each cap on time that the run exceeded, with the excess."""
        spent = (("device_s", device_s, self.device_s), ("wall_s", wall_s, self.wall_s))
        return tuple(
            f"budget.{name} was exceeded by {taken - cap:.1f} s: v0 and the final benchmark are never cut short"
            for name, taken, cap in spent
            if taken is not None and cap is not None and taken > cap
        )


class Benchmark(StrictSection):
    """The contestants that v0 and the final benchmark include besides the kernels of the run."""

    eager: bool = True
    """Time the reference in eager mode of torch."""
    compile: bool = True
    """Time the reference under torch.compile; on a GPU also with max-autotune."""
    rivals: str | None = None
    """A Python file with functions of other libraries that compute the same, relative to the config
    (docs/scores.md)."""

    @property
    def frameworks(self) -> tuple[Literal["eager", "compile"], ...]:
        """The frameworks that are included."""
        every: tuple[Literal["eager", "compile"], ...] = ("eager", "compile")
        return tuple(name for name in every if getattr(self, name))

    @model_validator(mode="after")
    def _together(self) -> Benchmark:
        if self.rivals and not self.frameworks:
            raise ValueError("rivals: they are timed beside torch; set eager or compile to true, or remove rivals")
        return self


class Settings(Section):
    """All settings of a run."""

    name: str | None = None
    """The name of the task and the prefix of the workspace's name; default: the name of the task's folder or of the
    kernel's file."""
    task: str | None = None
    """A folder with reference.py and the kernel, relative to the config."""
    kernel: str | None = None
    """A kernel file, instead of `task`; needs `reference`."""
    reference: str | None = None
    """The reference.py that belongs to `kernel`."""
    dims: str | None = None
    """The sizes at which `kernel` is timed, e.g. "M=512 N=1000"."""
    pointer_elements: int = Field(default=0, ge=0, strict=True)
    """The number of elements of each pointer buffer, for a kernel whose shapes are not declared (seed style); 0: the
    product of the two largest dims."""
    trace: str | None = None
    """A trace of launches in JSON lines or CSV. Its sizes, weighted by the number of launches, replace the task's own
    workloads (docs/your-kernel.md)."""
    tolerance: Literal["capped", "as_stated"] = "capped"
    """capped: the reference's rtol and atol apply up to the judge's caps. as_stated: they apply as they are, and the
    report and the commits say so."""
    hardware: str | None = None
    """The product to look up in the gpu-wiki, e.g. "H200"; default: the name that the device reports."""
    variant: str = ""
    """The form of the product, if the wiki has several, e.g. "SXM5"."""
    models: dict[Literal["default", RoleName], ModelChoice] = {"default": ModelChoice()}
    """The model of each role: planner, coder, profiler_analyst, knowledge_retriever, gatekeeper; `default` is for all
    others."""
    search: Search = Search()
    """How the loop explores."""
    stop: Stop = Stop()
    """When the result is good enough."""
    budget: Budget = Budget()
    """Caps on time, tokens and dollars; reaching one ends the run in order."""
    prices: dict[str, Price] = Field(default_factory=dict)
    """Model -> USD per million tokens (`input`, `output`, `cache_read`, …). These prices override
    agents/models/prices.yaml; use 0 for a server of your own."""
    judge: JudgeSettings = JudgeSettings()
    """The settings of the judge's measurements and of the gate's decision."""
    benchmark: Benchmark = Benchmark()
    """The contestants of the final benchmark besides the baseline and the best kernel."""
    profilers: tuple[str, ...] | None = None
    """The profilers to run; default: those for the device of the task's language (`DEFAULT_PROFILERS` in
    tools/profilers/base.py)."""
    profile: Literal["champion", "all"] = "champion"
    """champion: v0 and accepted versions are profiled. all: every correct candidate is, and its version keeps the
    profile when it is refused."""
    handlers: tuple[str, ...] = ()
    """Handler classes of your own as package.module:Class, which apply after those in agents/handlers
    (docs/model-options.md)."""
    executor: ExecutorChoice = ExecutorChoice()
    """The executor that runs jobs, with its own options."""
    gpu: int | None = Field(default=None, ge=0, strict=True)
    """The index of the GPU that runs jobs, as nvidia-smi counts; default: the first GPU that is not in use."""
    clocks: Literal["observe", "lock"] = "observe"
    """observe: the GPU's clocks are only recorded. lock: they are locked during the run if the user has permission
    (root); the record of the environment says which applied."""
    isolation: Literal["reported", "required"] = "reported"
    """reported: env_check.md lists what the host lacks of the sandbox. required: a host that lacks network isolation,
    Landlock or seccomp stops the run before a kernel runs; GPU kernels never get seccomp."""
    gpu_wiki_path: str | None = None
    """The path of a gpu-wiki that replaces the bundled one."""
    reference_projects: str | None = None
    """A folder of projects that retrieval searches besides the wiki, e.g. clones of kernel libraries; it is only
    read."""
    embedder: str | None = None
    """The embedder that turns passages into vectors: minilm, none, or a class of your own as package.module:Class;
    default: none, which searches by words."""
    chroma: str | None = None
    """The URL of a Chroma server that stores the vectors; default: a folder under $KERNELWRIGHT_HOME."""
    on_unknown: Literal["continue", "ask", "stop"] = "continue"
    """The effect of a hardware number that the wiki lacks: the run continues, asks a person at the terminal (and stops
    without a terminal), or stops."""
    workspaces: str = "workspaces"
    """The folder of the workspaces, relative to the current folder."""
    linked_to: str | None = None
    """The workspace and version that the run continues; `restart` sets it."""

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
                f"{beside}: belongs to `kernel`; a task folder has its sizes and reference in reference.py, so "
                "remove it"
            )
        if wrong:
            raise ValueError("\n".join(wrong))
        return self

    @property
    def run_name(self) -> str:
        """The prefix of the names of the run's workspaces."""
        return self.name or (Path(self.task).stem if self.task else default_task_name(Path(self.kernel or "run")))

    def model_for(self, role: RoleName) -> dict[str, Any]:
        """Return the config entry of a role as a dict, or the default entry."""
        choice = self.models.get(role) or self.models.get("default") or ModelChoice()
        return choice.model_dump()

    @property
    def planner_model(self) -> str:
        """The name of the planner's model, or of its provider if the config names no model."""
        choice = self.model_for("planner")
        return str(choice.get("model") or choice["provider"])

    def sources(self, suffix: str) -> SourceNames:
        """Return the user's file names of the kernel (in a task folder `kernel<suffix>`) and of the reference."""
        return SourceNames(Path(self.kernel or f"kernel{suffix}").name, Path(self.reference or "reference.py").name)


def load(path: Path) -> Settings:
    """Read a config or a task folder; its paths become absolute. A SettingsError names the key or file.

    A task folder is read as a config whose only key is `task`.
    """
    import yaml

    if path.is_dir():
        return _settings_of_task_folder(path)
    if path.is_file() and path.suffix in SOURCE_SUFFIXES:
        raise SettingsError(
            f"{path} is a source file and not a config; give `--kernel` and `--ref`, or the "
            "folder that holds both files; "
            "`python -m graph init FILE` makes one around a kernel, and a KernelBench file goes with --problem"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SettingsError(
            f"{path} does not exist; give a YAML file such as configs/quickstart.yaml, or a folder with reference.py"
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


def _settings_of_task_folder(path: Path) -> Settings:
    """Return the default settings with a folder as the task; raise SettingsError if the folder holds no task."""
    if (path / ".kernelwright").is_dir():
        raise SettingsError(
            f"{path} is the workspace of a run; `python -m graph resume {path}` continues the run, and `restart` "
            f"begins a new one from one of its versions"
        )
    if (path / "reference.py").exists() or any(path.glob("kernel.*")):
        return parse({"task": "."}, origin=str(path), base=path)
    raise SettingsError(
        f"{path} is a folder without a task (reference.py and a kernel); name a folder that holds these, or a YAML "
        "file such as configs/quickstart.yaml"
    )


def parse(data: dict[str, Any], *, origin: str, base: Path) -> Settings:
    """Validate `data` and return the settings; its paths are taken relative to `base`. Errors begin with `origin`."""
    try:
        settings = Settings.model_validate(data)
    except ValidationError as error:
        raise SettingsError(validation_sentences(error, Settings, f"{origin}: ", MISPLACED_KEYS)) from None
    paths = {"task", "kernel", "reference", "trace", "gpu_wiki_path", "reference_projects"}
    paths_given = {name: getattr(settings, name) for name in paths}
    absolute: dict[str, Any] = {name: str((base / value).resolve()) for name, value in paths_given.items() if value}
    absolute["models"] = {role: choice.with_absolute_paths(base) for role, choice in settings.models.items()}
    if settings.benchmark.rivals:
        absolute["benchmark"] = settings.benchmark.model_copy(
            update={"rivals": str((base / settings.benchmark.rivals).resolve())}
        )
    return settings.model_copy(update=absolute)
