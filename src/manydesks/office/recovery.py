"""After a start, before anything else: take what the desks wrote under the claims of the last host, then release them.

The order matters: nobody writes any more before the files are read; an answer that lies in a desk's file is taken under
its own fence, so its message is completed and not asked again; only what is left after that is given back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from manydesks.desk.confined import Confined
from manydesks.desk.furnish import office_mark
from manydesks.desk.repair import end_leftovers, repair
from manydesks.domain.errors import BadInput, MailboxError, SandboxError
from manydesks.mailbox.host import HostMailbox
from manydesks.office.hooks.roster import Hooks
from manydesks.office.taker import Taker
from manydesks.office.threads import MailboxThreads
from manydesks.settings.home import Home
from manydesks.store.outcome import Rules
from manydesks.store.store import Store

log = logging.getLogger(__name__)


async def recover(
    store: Store,
    home: Home,
    threads: MailboxThreads,
    rules: Rules,
    rule_of: Mapping[str, str],
    hooks: Hooks | None = None,
) -> int:
    """How many messages and responses were under way. `rule_of`: what each channel does with a cut-off sending."""
    if not await asyncio.to_thread(end_leftovers, office_mark(home)):
        log.error("Processes of an earlier office do not end", extra={"action": "leftovers"})
    left = await store.open_runs()
    mailboxes = {
        session: HostMailbox(home.session(agent, session), session=session, agent=agent) for agent, session, _ in left
    }
    for session, mailbox in mailboxes.items():
        try:
            await threads.run(mailbox.prepare)
            await _take(store, home, threads, mailbox, session, rules, hooks)
        except (MailboxError, SandboxError, BadInput, OSError) as error:
            log.warning("What %s left could not be read: %s", session, error, extra={"action": "recovery_refused"})
            # its messages are asked again; the refused file must not stand in the way of the new answer
            try:
                await threads.run(mailbox.set_aside)
            except (MailboxError, OSError) as stuck:
                log.error("What %s left is still there: %s", session, stuck, extra={"action": "not_set_aside"})
    freed = await store.release(rules, rule_of)
    for _, session, fence in left:
        try:
            await threads.run(mailboxes[session].withdraw, fence)
        except (MailboxError, OSError) as error:
            log.warning("The inbox of %s could not be cleared: %s", session, error, extra={"action": "withdraw_failed"})
    return freed


async def _take(
    store: Store,
    home: Home,
    threads: MailboxThreads,
    mailbox: HostMailbox,
    session: str,
    rules: Rules,
    hooks: Hooks | None,
) -> None:
    """Mended first where only the host wrote; else read as it is, and mended at its desk only if it has to be."""
    taker = Taker(store, threads, mailbox, session, rules, files=home.files, hooks=hooks)
    workspace, office = home.workspace(mailbox.agent), office_mark(home)
    if Confined(mailbox.folder).sandbox() is None:
        await repair(mailbox.folder, workspace, office=office)
    await taker.take_mended(lambda: repair(mailbox.folder, workspace, office=office))
