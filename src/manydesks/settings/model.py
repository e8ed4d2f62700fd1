"""The settings of an office: every key with its meaning, its bounds and its default.

The docs are generated from these classes, and `problems.py` makes its sentences from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args, get_origin

import annotated_types
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from manydesks.domain.ids import is_name


@dataclass(frozen=True)
class Allowed:
    """Says in words what a pattern or a validator accepts; pydantic itself ignores it."""

    words: str


def _agent_name(text: str) -> str:
    if not is_name(text):
        raise ValueError("not an agent's id")
    return text


AgentName = Annotated[
    str,
    AfterValidator(_agent_name),
    Allowed("an agent's id (1 to 32 lowercase letters, digits, and _ - inside)"),
]
SparkMaster = Annotated[
    str,
    Field(pattern=r"^(local(\[(\*|[1-9][0-9]*)\])?|spark://\S+|k8s://\S+|yarn)$"),
    Allowed('a Spark master such as "local[*]", "local[2]" or "spark://host:7077"'),
]
MemorySize = Annotated[
    str,
    Field(pattern=r"^[1-9][0-9]{0,5}[mg]$"),
    Allowed('a size in megabytes or gigabytes such as "512m" or "2g"'),
]
FolderPath = Annotated[
    str,
    Field(pattern=r"^(/[^\x00]*)?$"),
    Allowed('the absolute path of a folder, or ""'),
]


class Section(BaseModel):
    # strict: "5" is not 5 and true is not 1; a person who writes the wrong type should hear of it
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class OfficeSettings(Section):
    """The office as a whole."""

    default_agent: AgentName = Field(
        default="assistant", description="The agent that gets messages without an address."
    )
    durability: Literal["power", "crash"] = Field(
        default="power",
        description="What a stored message survives: `power` (a power cut) or `crash` (a killed process; faster).",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least important kind of line that is logged."
    )


class RetrySettings(Section):
    """What happens after a transient failure."""

    base_seconds: float = Field(
        default=5.0, gt=0, le=3600, description="Wait before the first retry, in seconds; doubled for each further one."
    )
    max_attempts: int = Field(
        default=5, ge=1, le=100, description="Attempts, the first included, before a message is dead."
    )
    jitter: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Largest share of a wait that is added to it at random; none is taken away.",
    )


class LimitsSettings(Section):
    """What stops floods and loops."""

    message_bytes: int = Field(
        default=262_144, ge=1024, le=1_048_576, description="Longest text of one message, in bytes."
    )
    hops: int = Field(
        default=12, ge=1, le=1000, description="Hand-offs from agent to agent that may follow one another."
    )
    trace_messages: int = Field(
        default=64, ge=1, le=100_000, description="Messages that may follow from one arrival, all agents together."
    )
    pair_per_minute: int = Field(
        default=20, ge=1, le=100_000, description="Messages a minute between two agents, both directions together."
    )


class DispatchSettings(Section):
    """How waiting messages become runs."""

    batch: int = Field(
        default=10, ge=1, le=1000, description="Messages of one lane that are handed to one run at most."
    )
    desks: int = Field(default=64, ge=1, le=1024, description="Runs at one time, all agents together.")


class RunnerSettings(Section):
    """How long a desk may take."""

    run_seconds: int = Field(
        default=3600, ge=1, le=604_800, description="Longest time that one run may take, in seconds."
    )
    idle_seconds: int = Field(
        default=1800, ge=1, le=604_800, description="Time that a runner without work stays warm, in seconds."
    )
    stop_seconds: int = Field(
        default=10,
        ge=0,
        le=600,
        description="Time that a run gets to end by itself when the office shuts down, in seconds.",
    )


class DeliverySettings(Section):
    """How answers leave the office."""

    timeout_seconds: int = Field(
        default=30, ge=1, le=3600, description="Longest time that one delivery may take, in seconds."
    )
    max_attempts: int = Field(
        default=5, ge=1, le=100, description="Attempts, the first included, before a response is dead."
    )


class PipelineSettings(Section):
    """The history on Spark."""

    master: SparkMaster = Field(default="local[*]", description="Where Spark runs.")
    memory: MemorySize = Field(default="2g", description="Memory of Spark's driver.")
    lake: FolderPath = Field(default="", description="Folder of the lake; empty: `lake` in the home.")
    shuffle_partitions: int = Field(default=8, ge=1, le=10_000, description="Partitions of a shuffle in Spark.")


class Settings(Section):
    """Everything in `settings.toml`."""

    office: OfficeSettings = Field(default=OfficeSettings(), description=OfficeSettings.__doc__)
    retry: RetrySettings = Field(default=RetrySettings(), description=RetrySettings.__doc__)
    limits: LimitsSettings = Field(default=LimitsSettings(), description=LimitsSettings.__doc__)
    dispatch: DispatchSettings = Field(default=DispatchSettings(), description=DispatchSettings.__doc__)
    runner: RunnerSettings = Field(default=RunnerSettings(), description=RunnerSettings.__doc__)
    delivery: DeliverySettings = Field(default=DeliverySettings(), description=DeliverySettings.__doc__)
    pipeline: PipelineSettings = Field(default=PipelineSettings(), description=PipelineSettings.__doc__)


def sections() -> dict[str, type[Section]]:
    """The section classes by name, in the order of the docs."""
    found: dict[str, type[Section]] = {}
    for name, field in Settings.model_fields.items():
        assert isinstance(field.annotation, type)
        assert issubclass(field.annotation, Section)
        found[name] = field.annotation
    return found


def takes_text(field: FieldInfo) -> bool:
    """Whether a value of this field is text, so that `2g` or `5` needs no quotes in a variable."""
    return field.annotation is str or get_origin(field.annotation) is Literal


def allowed(field: FieldInfo) -> str:
    """In words, what may stand there."""
    for mark in field.metadata:
        if isinstance(mark, Allowed):
            return mark.words
    if get_origin(field.annotation) is Literal:
        *most, last = (f'"{choice}"' for choice in get_args(field.annotation))
        return f"{', '.join(most)} or {last}"
    words = "a whole number" if field.annotation is int else "a number" if field.annotation is float else "a text"
    for mark in field.metadata:
        match mark:
            case annotated_types.Gt(gt=bound):
                words += f" above {bound}"
            case annotated_types.Ge(ge=bound):
                words += f" from {bound}"
            case annotated_types.Le(le=bound):
                words += f" up to {bound}"
            case _:
                pass
    return words
