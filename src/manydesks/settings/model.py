"""The settings of an office: every key with its meaning, its bounds and its default.

The docs are generated from these classes, and `problems.py` makes its sentences from them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin
from urllib.parse import unquote

import annotated_types
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from manydesks.domain.budget import LEAST, zone
from manydesks.domain.ids import is_name


@dataclass(frozen=True)
class Allowed:
    """Says in words what a pattern or a validator accepts; pydantic itself ignores it."""

    words: str


def _agent_name(text: str) -> str:
    if not is_name(text):
        raise ValueError("not an agent's id")
    return text


def _ip_address(text: str) -> str:
    ip_address(text)
    return text


def _cap(usd: float) -> float:
    if 0 < usd < LEAST:
        raise ValueError("it would be counted as 0, which is no cap")
    return usd


def _time_zone(text: str) -> str:
    zone(text)
    return text


def _local_folder(text: str) -> str:
    """A URI of this machine's files is the same as the path: whoever has the setting has a path."""
    if not text.startswith("file://"):
        return text
    path = unquote(text.removeprefix("file://").removeprefix("localhost"))
    if "\0" in path:
        raise ValueError("not a path")
    return path


#: names of options whose values are not for a settings file; one that names a file is no secret itself
_PASSWORD = re.compile(r"(?i)(secret|password|token|(access|account)\.key)(?!.*file$)")
#: how a value says that it is the value of a secret
SECRET_MARK = "secret:"


def _no_password(options: dict[str, str]) -> dict[str, str]:
    for name, value in options.items():
        if _PASSWORD.search(name) and not value.startswith(SECRET_MARK):
            raise ValueError("a password")
    return options


TimeZone = Annotated[
    str,
    AfterValidator(_time_zone),
    Allowed('the name of a time zone such as "Europe/Berlin"'),
]
AgentName = Annotated[
    str,
    AfterValidator(_agent_name),
    Allowed("an agent's id (1 to 32 lowercase letters, digits, and _ - inside)"),
]
SparkMaster = Annotated[
    str,
    Field(
        # no `@`: a name and a password before it would stand in the logs of Spark
        pattern=r"^(local(\[(\*|[1-9][0-9]*)\])?|local-cluster\[[1-9][0-9]*,[1-9][0-9]*,[1-9][0-9]*\]|spark://[^\s@]+|"
        r"k8s://[^\s@]+|yarn)$"
    ),
    Allowed('a Spark master such as "local[*]", "local[2]", "spark://host:7077", "yarn" or "k8s://https://host:6443"'),
]
DayTime = Annotated[
    str,
    Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$"),
    Allowed('a time of the day such as "03:00"'),
]
MemorySize = Annotated[
    str,
    # less, and Spark does not start: it wants 450 MiB, and Java keeps some of what it is given for itself
    Field(pattern=r"^((51[2-9]|5[2-9][0-9]|[6-9][0-9]{2}|[1-9][0-9]{3,5})m|[1-9][0-9]{0,5}g)$"),
    Allowed('a size in megabytes or gigabytes such as "800m" or "2g", "512m" or more'),
]
SparkOptionTable = Annotated[
    dict[
        Annotated[str, Field(pattern=r"^spark\.[A-Za-z0-9][A-Za-z0-9._-]{0,190}$")],
        Annotated[str, Field(max_length=4000, pattern=r"^[^\x00-\x1f\x7f]*$")],
    ],
    Field(max_length=100),
    AfterValidator(_no_password),
    Allowed(
        'a table of options that begin with "spark.", each a text and passwords as "secret:NAME", such as '
        '`{"spark.executor.memory" = "4g"}`'
    ),
]
SecretName = Annotated[
    str,
    Field(pattern=r"^([a-z][a-z0-9_]{0,63})?$"),
    Allowed('the name of a secret (a-z, 0-9 and _, beginning with a letter), or ""'),
]
HeaderName = Annotated[
    str,
    Field(pattern=r"^([a-z0-9][a-z0-9_-]{0,63})?$"),
    Allowed('a header\'s name in lowercase, or ""'),
]
Dollars = Annotated[
    float,
    Field(ge=0, le=10**9),
    AfterValidator(_cap),
    Allowed("0, or a number from 0.000001 up to 1000000000"),
]
TableName = Annotated[
    str,
    AfterValidator(_agent_name),
    Allowed("a name of 1 to 32 lowercase letters, digits, and _ - inside"),
]
PluginNames = Annotated[
    list[Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9_-]{0,30}[a-z0-9])?$")]],
    Field(max_length=64),
    Allowed('a list of plugins\' names such as ["signature"]'),
]
ProviderLimits = Annotated[
    dict[str, Annotated[int, Field(ge=1, le=1024)]],
    Allowed("a table of providers, each with a whole number from 1 up to 1024, such as `{claude = 4}`"),
]
Address = Annotated[
    str,
    AfterValidator(_ip_address),
    Allowed('an address of this machine such as "127.0.0.1", "::1" or "0.0.0.0"'),
]
HostNames = Annotated[
    list[Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")]],
    Field(max_length=64),
    Allowed('a list of names of this machine in lowercase, such as ["office.lan"]'),
]
Origins = Annotated[
    list[Annotated[str, Field(pattern=r"^https?://[a-z0-9\[]([a-z0-9.:\[\]-]{0,251}[a-z0-9\]])?$")]],
    Field(max_length=64),
    Allowed('a list of origins such as ["https://desk.example"]'),
]
FilePath = Annotated[
    str,
    Field(pattern=r"^(/[^\x00]*)?$"),
    Allowed('the absolute path of a file, or ""'),
]
#: what an option of a provider may be; which options there are, the provider says
Option = Annotated[str | int | float | bool | list[Any] | dict[str, Any], Field(union_mode="left_to_right")]
#: no user and no password (what stands before the @ of Azure is a container's name), no question, nothing encoded
_BUCKET = r"(s3a?|gs)://[A-Za-z0-9][A-Za-z0-9._-]*"
_CONTAINER = r"abfss?://[A-Za-z0-9][A-Za-z0-9-]*@[A-Za-z0-9][A-Za-z0-9.-]*"
_NAMENODE = r"hdfs://[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]{1,5})?"
_BELOW = r"(/+[A-Za-z0-9_=+-][A-Za-z0-9._=+-]*)+/*"
LakePlace = Annotated[
    str,
    Field(pattern=rf"^((file://(localhost)?)?/[^\x00]*|({_BUCKET}|{_CONTAINER}|{_NAMENODE}){_BELOW})?$"),
    AfterValidator(_local_folder),
    Allowed(
        'the absolute path of a folder, such a path after "file://", a URI without credentials such as '
        '"s3://bucket/lake" (also gs, abfss and hdfs; letters, digits and . _ = + - in its path), or ""'
    ),
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
    offer_model: bool = Field(
        default=True,
        description="Whether `up` offers a model that it finds to an assistant that only rehearses; any answer at a "
        "terminal makes it `false`.",
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
    run_messages: int = Field(
        default=200,
        ge=1,
        le=100_000,
        description="Messages, and other acts that others see, of one run; with one more it is ended as a flood.",
    )
    wait_seconds: int = Field(
        default=86_400,
        ge=1,
        le=31_536_000,
        description="Longest time that a step of a chain, or a join, waits for what stands before it, in seconds.",
    )
    same_calls: int = Field(
        default=8,
        ge=2,
        le=1000,
        description="Times that a run may call the same tools with the same arguments, one round after the other, "
        "before it is ended as a loop.",
    )


class DispatchSettings(Section):
    """How waiting messages become runs."""

    batch: int = Field(
        default=10, ge=1, le=1000, description="Messages of one lane that are handed to one run at most."
    )
    desks: int = Field(default=64, ge=1, le=1024, description="Runs at one time, all agents together.")
    provider_desks: int = Field(
        default=64, ge=1, le=1024, description="Runs at one time, the agents of one provider together."
    )
    provider_limits: ProviderLimits = Field(
        default={}, description="The same for single providers, in the place of `provider_desks`."
    )


class RunnerSettings(Section):
    """How long a desk may take."""

    run_seconds: int = Field(
        default=3600, ge=1, le=604_800, description="Longest time that one run may take, in seconds."
    )
    idle_seconds: int = Field(
        default=1800, ge=1, le=604_800, description="Time that a runner without work stays warm, in seconds."
    )
    warm: int = Field(
        default=16,
        ge=0,
        le=1024,
        description="Runners in processes of their own that stay warm without work; of more, the longest idle leaves.",
    )
    silence_seconds: int = Field(
        default=900,
        ge=10,
        le=604_800,
        description="Longest time that a run may show nothing new, in seconds; time that a tool asked for, and time "
        "that a person takes to answer, does not count.",
    )
    heartbeat_seconds: int = Field(
        default=60,
        ge=10,
        le=3600,
        description="Age of a runner's heartbeat, in seconds, from which it counts as hung; it beats every 5 seconds.",
    )
    stop_seconds: int = Field(
        default=10,
        ge=0,
        le=600,
        description="Time that a run gets to end by itself when the office shuts down, in seconds.",
    )


class SandboxSettings(Section):
    """What holds the programs of an agent, and how much they may use, each desk by itself."""

    kind: Literal["auto", "bubblewrap", "none"] = Field(
        default="auto",
        description="`auto`: bubblewrap, and where it does not work providers that run programs do not start; `none`: "
        "agents can do all that you can. An agent's own sandbox goes before.",
    )
    memory_mib: int = Field(
        default=4096, ge=64, le=1_048_576, description="Memory of all processes of a desk together, in MiB."
    )
    tasks: int = Field(default=1024, ge=16, le=1_000_000, description="Processes and threads of a desk together.")
    tmp_mib: int = Field(
        default=512, ge=1, le=1_048_576, description="A desk's private `/tmp`, which is memory, in MiB; not for `none`."
    )
    open_files: int = Field(default=4096, ge=64, le=1_048_576, description="Open files of one process.")
    file_mib: int = Field(
        default=4096, ge=1, le=1_048_576, description="The largest file that a process may write, in MiB."
    )


class ProxySettings(Section):
    """The way of desks to models, each session by itself."""

    body_mib: int = Field(default=32, ge=1, le=1024, description="Longest body of one request, in MiB.")
    connections: int = Field(default=64, ge=1, le=10_000, description="Connections at one time.")
    calls: int = Field(default=16, ge=1, le=1000, description="Calls at one time.")
    connect_seconds: int = Field(default=10, ge=1, le=600, description="Time to reach a model server, in seconds.")
    upstream_seconds: int = Field(
        default=600,
        ge=1,
        le=86_400,
        description="Longest pause of a model server, in seconds; models think in silence.",
    )


class UpstreamSettings(Section):
    """A model server, under a name of your own."""

    kind: Literal["anthropic", "openai"] = Field(description="The language it speaks.")
    base_url: str = Field(
        min_length=1,
        max_length=2000,
        description="Where its API begins: `https://…`, or `http://` on this machine; for `openai` with the version.",
    )
    key: SecretName = Field(default="", description="The secret that holds its key; empty: it wants none.")
    key_header: HeaderName = Field(
        default="", description="The header that carries the key; empty: the usual one of its kind."
    )


#: model servers that need no settings but a key
KNOWN_UPSTREAMS = {
    "anthropic": UpstreamSettings(kind="anthropic", base_url="https://api.anthropic.com", key="anthropic_api_key"),
    "openai": UpstreamSettings(kind="openai", base_url="https://api.openai.com/v1", key="openai_api_key"),
}


class BudgetSettings(Section):
    """What may be spent; 0 is no cap. An agent's own budget goes before what is said here of each agent."""

    time_zone: TimeZone = Field(
        default="UTC", description="Where a day begins: the name of a time zone such as `Europe/Berlin`."
    )
    per_agent_day_usd: Dollars = Field(default=0.0, description="Dollars of one agent in a day.")
    per_agent_day_tokens: int = Field(default=0, ge=0, le=10**12, description="Tokens of one agent in a day.")
    per_agent_day_runs: int = Field(default=0, ge=0, le=10**9, description="Runs of one agent in a day.")
    per_day_usd: Dollars = Field(default=0.0, description="Dollars of all agents together in a day.")
    per_day_tokens: int = Field(default=0, ge=0, le=10**12, description="Tokens of all agents together in a day.")
    per_day_runs: int = Field(default=0, ge=0, le=10**9, description="Runs of all agents together in a day.")
    per_trace_usd: Dollars = Field(default=0.0, description="Dollars of all that follows from one arrival.")
    per_trace_tokens: int = Field(
        default=0, ge=0, le=10**12, description="Tokens of all that follows from one arrival."
    )
    per_trace_runs: int = Field(default=0, ge=0, le=10**9, description="Runs of all that follows from one arrival.")
    first_reserve_usd: float = Field(
        default=0.1,
        ge=0,
        le=10**6,
        description="Dollars that a run reserves while nothing is known of its agent; later it is what 95 of 100 of "
        "its runs stayed below.",
    )
    first_reserve_tokens: int = Field(
        default=20_000, ge=0, le=10**9, description="Tokens that a run reserves while nothing is known of its agent."
    )


class PriceSettings(Section):
    """What a model's tokens cost, under a name of your own: for providers that do not say it themselves."""

    model: str = Field(
        min_length=1,
        max_length=200,
        description="The model as the provider names it; with a `*` at its end, all whose names begin so.",
    )
    input_usd: float = Field(ge=0, le=10**6, description="Dollars for a million tokens that it reads.")
    output_usd: float = Field(ge=0, le=10**6, description="Dollars for a million tokens that it writes.")
    cache_read_usd: float = Field(
        default=-1.0, ge=-1, le=10**6, description="Dollars for a million tokens from the cache; -1: as `input_usd`."
    )
    cache_write_usd: float = Field(
        default=-1.0, ge=-1, le=10**6, description="Dollars for a million tokens into the cache; -1: as `input_usd`."
    )


class DeliverySettings(Section):
    """How answers leave the office."""

    timeout_seconds: int = Field(
        default=30, ge=1, le=3600, description="Longest time that one delivery may take, in seconds."
    )
    max_attempts: int = Field(
        default=5, ge=1, le=100, description="Attempts, the first included, before a response is dead."
    )
    max_age_hours: float = Field(
        default=12.0,
        gt=0,
        le=87_600,
        description="Age, in hours, at which a response that could not be delivered expires instead of being sent.",
    )
    file_over: int = Field(
        default=4000,
        ge=1,
        le=10_000_000,
        description="Characters over which an answer also comes as a file, where the channel takes files.",
    )


class ApiSettings(Section):
    """The office over HTTP, for programs and browsers."""

    enabled: bool = Field(default=True, description="`false`: nothing listens.")
    host: Address = Field(
        default="127.0.0.1",
        description="Where it listens; any address but one of this machine's own loopback lets other machines in.",
    )
    port: int = Field(default=3777, ge=0, le=65_535, description="The port; 0: any that is free, `status` says which.")
    auth: Literal["token", "none"] = Field(
        default="token",
        description="Who is let in: whoever has the token in `api.token`, or, on a loopback address only, anybody.",
    )
    names: HostNames = Field(
        default=[],
        description="Names besides `localhost` and addresses by which clients may call the office.",
    )
    origins: Origins = Field(
        default=[], description="Web pages of other origins that may use it, each as browsers name it."
    )
    tls_certificate: FilePath = Field(
        default="", description="A file with the certificate and its chain; with it, HTTPS."
    )
    tls_key: FilePath = Field(default="", description="A file with the certificate's key.")
    body_bytes: int = Field(
        default=1_048_576, ge=1024, le=67_108_864, description="Longest body of one request, in bytes."
    )
    per_minute: int = Field(
        default=600,
        ge=1,
        le=1_000_000,
        description="Requests a minute of one other machine; this one's are not counted.",
    )
    readers: int = Field(default=1000, ge=1, le=100_000, description="Those who may follow the events at one time.")


class HooksSettings(Section):
    """Plugins: functions of yours that see messages on their way in and out."""

    enabled: bool = Field(default=True, description="`false`: no plugin is loaded.")
    disabled: PluginNames = Field(default=[], description="Plugins that are not loaded, by name.")
    timeout_seconds: float = Field(
        default=2.0, gt=0, le=60, description="Longest time that a hook may take which sets none itself, in seconds."
    )


class RetentionSettings(Section):
    """How long the store keeps what has ended."""

    days: float = Field(
        default=30.0,
        ge=1,
        le=36_500,
        description="Days that events, and messages that have ended, are kept; what agents remember is kept for ever.",
    )
    require_archive: bool = Field(
        default=True,
        description="Keep what the lake does not have yet, however old it is; `false` for an office without a "
        "pipeline.",
    )


class PipelineSettings(Section):
    """The history on Spark."""

    auto: Literal["nightly", "watch", "off"] = Field(
        default="nightly",
        description="What the office does by itself, where the pipeline is installed: `nightly` (a run each night), "
        "`watch` (the lake is kept up with the ledger all the time) or `off`.",
    )
    nightly_at: DayTime = Field(
        default="03:00",
        description="When a night's run begins, by the machine's own clock; what was missed is made up for after the "
        "office is opened.",
    )
    master: SparkMaster = Field(default="local[*]", description="Where Spark runs.")
    memory: MemorySize = Field(default="2g", description="Memory of Spark's driver.")
    lake: LakePlace = Field(
        default="",
        description="Where the lake lies; empty: `lake` in the home. The path of a folder, also that of the home then, "
        "must not have a `%` (after `file://`, `%20` and the like are decoded first), a `\\`, a control character or "
        "what is no UTF-8 in it, nor both a `:` and one of `[ ] { } * ?`; the pipeline refuses it.",
    )
    shuffle_partitions: int = Field(default=8, ge=1, le=10_000, description="Partitions of a shuffle in Spark.")
    spark: SparkOptionTable = Field(
        default={},
        description="Further options of Spark, by their own names; `secret:NAME` is the value of that secret.",
    )

    def lake_folder(self, own: Path) -> Path:
        """The lake's folder on this machine; `own`, the one in the home, if the lake lies elsewhere: then that has what
        is published of it."""
        return Path(self.lake) if self.lake and "://" not in self.lake else own


class Settings(Section):
    """Everything in `settings.toml`."""

    office: OfficeSettings = Field(default=OfficeSettings(), description=OfficeSettings.__doc__)
    retry: RetrySettings = Field(default=RetrySettings(), description=RetrySettings.__doc__)
    limits: LimitsSettings = Field(default=LimitsSettings(), description=LimitsSettings.__doc__)
    dispatch: DispatchSettings = Field(default=DispatchSettings(), description=DispatchSettings.__doc__)
    runner: RunnerSettings = Field(default=RunnerSettings(), description=RunnerSettings.__doc__)
    sandbox: SandboxSettings = Field(default=SandboxSettings(), description=SandboxSettings.__doc__)
    proxy: ProxySettings = Field(default=ProxySettings(), description=ProxySettings.__doc__)
    budget: BudgetSettings = Field(default=BudgetSettings(), description=BudgetSettings.__doc__)
    delivery: DeliverySettings = Field(default=DeliverySettings(), description=DeliverySettings.__doc__)
    api: ApiSettings = Field(default=ApiSettings(), description=ApiSettings.__doc__)
    hooks: HooksSettings = Field(default=HooksSettings(), description=HooksSettings.__doc__)
    retention: RetentionSettings = Field(default=RetentionSettings(), description=RetentionSettings.__doc__)
    pipeline: PipelineSettings = Field(default=PipelineSettings(), description=PipelineSettings.__doc__)
    upstreams: dict[TableName, UpstreamSettings] = Field(default={}, description=UpstreamSettings.__doc__)
    prices: dict[TableName, PriceSettings] = Field(default={}, description=PriceSettings.__doc__)
    providers: dict[TableName, dict[str, Option]] = Field(
        default={}, description="The options of a provider, for all of its agents; the provider says which it has."
    )
    channels: dict[TableName, dict[str, Option]] = Field(
        default={}, description="The settings of a channel, and the accounts that it has; the channel says which."
    )

    def all_upstreams(self) -> dict[str, UpstreamSettings]:
        """Those of the file, and the known ones that it does not name."""
        return {**KNOWN_UPSTREAMS, **self.upstreams}


def sections() -> dict[str, type[Section]]:
    """The section classes by name, in the order of the docs; without those whose tables have names of their own."""
    return {
        name: field.annotation
        for name, field in Settings.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
    }


def named_tables() -> dict[str, type[Section] | None]:
    """Sections made of tables with names of the owner's choice, each with the class of a table; None: any keys."""
    return {"upstreams": UpstreamSettings, "prices": PriceSettings, "providers": None, "channels": None}


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
    if field.annotation is bool:
        return "true or false"
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
