"""The door: how a command reaches the office, whether a host runs or not."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time
from typing import Any

from manydesks.domain.errors import BadInput, Duplicate, ManyDesksError, NotAnswering, NotRunning, OfficeError
from manydesks.office.lock import RETRY_SECONDS, WAIT_SECONDS, last_beat, running_host, write_lock
from manydesks.office.wire import LINE_BYTES, SOCKET, encode, result_of
from manydesks.settings.home import Home
from manydesks.store.reader import Reader

#: a healthy host answers in milliseconds; a disk that syncs slowly may take a second
ANSWER_SECONDS = 10.0

#: of an office that is to end, less is waited for: one that does not answer is ended all the same
LAST_WORD_SECONDS = 3.0

#: what names itself by its `message_id`, so that asking again stores nothing twice
_NAMED = ("send", "message")

#: the socket is not there yet, or not any more: the host is starting or stopping
_NOT_THERE = (FileNotFoundError, ConnectionRefusedError)


class Door:
    """Writes go through the host while one runs, else straight into the store under the lock. Reads never wait."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def ask(self, verb: str, /, **args: Any) -> dict[str, Any]:
        """Have something done. Raises what the clerk raises, or NotAnswering when the host hangs."""
        self._home.prepare()
        deadline = time.monotonic() + WAIT_SECONDS
        asked_before = False
        while True:
            pid = running_host(self._home)
            try:
                done = self._alone(verb, args) if pid is None else self._over_socket(pid, verb, args)
                if done is not None:
                    return done
            except Duplicate:
                if not asked_before:
                    raise
                return self._stored(args["message_id"])
            except ConnectionResetError:
                # it ended while we asked
                if verb not in _NAMED or args.get("message_id") is None:
                    raise OfficeError("The office ended while it was asked; look whether it was done.") from None
                asked_before = True
            except _NOT_THERE:
                pass
            if time.monotonic() > deadline:
                raise NotAnswering(home=self._home.path, pid=pid or "unknown", seconds=f"{WAIT_SECONDS:g}")
            time.sleep(RETRY_SECONDS)

    def host(self, seconds: float = ANSWER_SECONDS, *, patience: float = WAIT_SECONDS) -> dict[str, Any] | None:
        """The running office's word on itself; None when none runs. NotAnswering when it hangs.

        `patience`: so long one is waited for that is starting or ending, and cannot be asked.
        """
        deadline = time.monotonic() + patience
        while (pid := running_host(self._home)) is not None:
            try:
                return self._over_socket(pid, "status", {}, seconds)
            except (ConnectionResetError, *_NOT_THERE):
                if time.monotonic() > deadline:
                    raise NotAnswering(home=self._home.path, pid=pid, seconds=f"{patience:g}") from None
                time.sleep(RETRY_SECONDS)
        return None

    def runs(self) -> bool:
        """Whether there is a host, or one starts; it is not asked."""
        return running_host(self._home) is not None

    def last_sign(self) -> int | None:
        """When the host was last seen to turn, milliseconds UTC; of one that hangs, since when it does."""
        return last_beat(self._home)

    def words(self, trace: str) -> dict[str, str]:
        """What agents are saying just now about this trace, by agent. Nothing if no office runs, or it is busy."""
        pid = running_host(self._home)
        if pid is None:
            return {}
        try:
            return dict(self._over_socket(pid, "words", {"trace": trace})["words"])
        except (ManyDesksError, ConnectionResetError, *_NOT_THERE):
            return {}  # whoever waits sees the answer all the same

    def stop(self, timeout: float) -> bool:
        """End the running office and wait for it, both within the time. False: it is still ending when that is over.

        Raises NotRunning, or NotAnswering if the office hangs and does not end.
        """
        deadline = time.monotonic() + timeout
        hangs = False
        seconds = min(LAST_WORD_SECONDS, max(timeout / 2, 0.5))
        try:
            # its own word first: what is written in the lock may be, for an instant, the number of the host before it
            host = self.host(seconds, patience=seconds)
            pid = host["pid"] if host is not None else None
        except NotAnswering:
            pid, hangs = running_host(self._home), True
        if not pid:
            raise NotRunning(home=self._home.path)
        os.kill(pid, signal.SIGTERM)
        while running_host(self._home) is not None:
            if time.monotonic() > deadline:
                if not hangs:
                    return False
                raise NotAnswering(
                    f"The office on {self._home.path} (process {pid}) does not answer, and has not ended within "
                    f"{timeout:g} s; `kill -9 {pid}` ends it, then `manydesks up`: nothing that is stored is lost."
                )
            time.sleep(RETRY_SECONDS)
        return True

    def reader(self) -> Reader:
        """A read-only view of the store."""
        return Reader(self._home.office_db, sockets=self._home.socket(SOCKET).parent)

    def _over_socket(
        self, pid: int, verb: str, args: dict[str, Any], seconds: float = ANSWER_SECONDS
    ) -> dict[str, Any]:
        request = encode({"verb": verb, "args": args})
        if len(request) > LINE_BYTES:
            raise BadInput(f"The request has {len(request)} bytes; at most {LINE_BYTES} can be asked at once.")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(seconds)
            try:
                line.connect(str(self._home.socket(SOCKET)))
                line.sendall(request)
                with line.makefile("rb") as answers:
                    answer = answers.readline()
            except TimeoutError:
                if verb == "status":
                    raise NotAnswering(home=self._home.path, pid=pid, seconds=f"{seconds:g}") from None
                id = args.get("message_id") if verb in _NAMED else None
                look = f"`manydesks trace {id}`" if id is not None else "look"
                raise NotAnswering(
                    f"The office on {self._home.path} (process {pid}) did not answer within {ANSWER_SECONDS:g} s; "
                    f"it may still do what it was asked: {look} before you ask again."
                ) from None
            except BrokenPipeError:
                raise ConnectionResetError from None
        if not answer.endswith(b"\n"):
            raise ConnectionResetError
        return result_of(json.loads(answer))

    def _alone(self, verb: str, args: dict[str, Any]) -> dict[str, Any] | None:
        """No host: this command takes the lock and writes by itself. None: a host has started meanwhile; ask it."""
        from manydesks.office.acts.base import Means
        from manydesks.office.clerk import Clerk
        from manydesks.office.hooks.roster import Hooks
        from manydesks.office.inforce import InForce
        from manydesks.settings.load import load_settings
        from manydesks.store.store import Store

        settings = load_settings(self._home)
        with write_lock(self._home, gives_way=True) as mine:
            if not mine:
                return None
            store = Store(self._home.office_db, durability=settings.office.durability)
            in_force = InForce(settings)

            async def perform() -> dict[str, Any]:
                hooks = Hooks(store, self._home, in_force)
                clerk = Clerk(Means(store=store, home=self._home, in_force=in_force, hooks=hooks))
                try:
                    await clerk.furnish()
                    return await clerk.perform(verb, args)
                finally:
                    await hooks.stop()

            try:
                return asyncio.run(perform())
            finally:
                store.close()

    def _stored(self, message_id: str) -> dict[str, Any]:
        """The host had stored the message before it ended: what it would have answered."""
        reader = self.reader()
        try:
            trace = reader.trace(message_id)
        finally:
            reader.close()
        if trace is None:
            raise OfficeError(f"The message '{message_id}' is known, but not there.")
        messages = [
            {"messageId": m["messageId"], "agent": m["agent"], "status": m["status"]}
            for m in trace["messages"]
            if m["parent"] is None
        ]
        return {"messageId": message_id, "traceId": trace["traceId"], "messages": messages, "notices": []}
