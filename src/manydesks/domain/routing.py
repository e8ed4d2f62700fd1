"""Who gets what: the decision on top of the address grammar. Pure; the caller stores, holds and sends.

Rules beyond the grammar of `address`:

* Text outside the tags is shared context: every target gets it, a blank line, its own text. Steps of a chain and the
  target of a join get it too (they run later, with the earlier answers added by the caller). A post in a room is only
  its own text: a person's text beside posts, if no tag took it, is routed as if the posts were not there.
* `->` waits for the tag just before it (all agents of it, if it names several). `=>` waits for every open end so far:
  each target that nobody waits for yet.
* Several tags for one agent are one target, unless they wait for different things: in `[@a: draft] -> [@b: review] ->
  [@a: fix]` a is asked twice.
* A tag that cannot be delivered (unknown or refused ids only) stays text, the connectors beside it too, and the sender
  is told; what would have waited for it waits for what it would have waited for, so the order of the rest holds.
* An empty tag delivers the shared context, or the answers it waits for; where there is neither, nothing is sent, and
  the sender is told.
* `@team` and `[@team: text]` reach the team's leader. An agent's id wins over a team of the same id.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal

from manydesks.domain.address import Connector, Parsed, Tag, leading, parse
from manydesks.domain.errors import UnknownAgent, UnknownTeam

#: one message may address no more than this; beyond it, tags are text (the shared context is copied for each target)
MAX_TARGETS = 64
#: more notices than this are summed up
MAX_NOTICES = 8

By = Literal["tag", "prefix", "default", "wiring", "hand-off", "chain", "join", "room", "answer"]


class Default(Enum):
    """What becomes of the conversation's default agent, when it is not set to one."""

    KEEP = "keep"
    CLEAR = "clear"


@dataclass(frozen=True, kw_only=True)
class Team:
    """Agents with a leader and a room."""

    id: str
    #: an agent's id; a member, whether or not `members` repeats it
    leader: str
    members: tuple[str, ...]
    #: what people call it
    name: str = ""

    @property
    def everyone(self) -> tuple[str, ...]:
        """Leader first, each once."""
        return tuple(dict.fromkeys((self.leader, *self.members)))


@dataclass(frozen=True, kw_only=True)
class Directory:
    """The agents and teams of an office at one moment; ids in lower case."""

    #: id → display name
    agents: Mapping[str, str]
    #: id → team
    teams: Mapping[str, Team] = field(default_factory=dict)
    #: id → agents that it may address beyond its team mates; one way
    reaches: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def find(self, name: str) -> tuple[str, str | None] | None:
        """The agent that `@name` reaches, and the team through which it does."""
        name = name.lower()
        if name in self.agents:
            return name, None
        team = self.teams.get(name)
        return (team.leader, team.id) if team is not None and team.leader in self.agents else None

    def teams_of(self, agent: str) -> frozenset[str]:
        return frozenset(team.id for team in self.teams.values() if agent in team.everyone)

    def may_address(self, sender: str, target: str) -> bool:
        """Team mates, agents without a team among themselves, and whom the sender was permitted to reach; nobody
        addresses itself."""
        if sender == target or sender not in self.agents or target not in self.agents:
            return False
        if target in self.reaches.get(sender, ()):
            return True
        ours, theirs = self.teams_of(sender), self.teams_of(target)
        return bool(ours & theirs) or not (ours or theirs)

    def nearest(self, name: str, *, room: bool = False) -> str | None:
        """The id that was probably meant; display names are looked at too."""
        meant = {team: team for team in self.teams}
        if not room:
            meant |= {shown.lower(): agent for agent, shown in self.agents.items()}
            meant |= {agent: agent for agent in self.agents}
        close = difflib.get_close_matches(name.lower(), meant, n=1)
        return meant[close[0]] if close else None


@dataclass(frozen=True, kw_only=True)
class Target:
    """One message for one agent."""

    agent: str
    #: what the agent is told; answers it waits for are added by the caller
    text: str
    by: By
    #: the team through which it was reached: its leader by `@team`, a member by a post
    team: str | None = None
    #: indices of earlier targets that must have answered first (for a join: answered, failed or timed out)
    after: tuple[int, ...] = ()
    #: True: runs whatever became of those in `after`, and gets every answer
    join: bool = False


@dataclass(frozen=True, kw_only=True)
class Post:
    """A text for a team's room, stored once; its deliveries are targets by `room`."""

    team: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Routing:
    """What is to happen with one message."""

    targets: tuple[Target, ...] = ()
    posts: tuple[Post, ...] = ()
    #: sentences for the sender
    notices: tuple[str, ...] = ()
    #: the message as people should see it: what was delivered by tag reads `→ @coder: fix it`
    shown: str = ""
    #: an agent's id sets the conversation's default
    default: Default | str = Default.KEEP
    #: text that is addressed to nobody, for wired agents or the office's default; None if there is none
    unaddressed: str | None = None


def route_person(text: str, directory: Directory, *, default: str | None, to: str | None = None) -> Routing:
    """A person's message: `to` wins, and then the text is not read at all; else tags; else a leading address; else the
    conversation's `default`; else it is `unaddressed`. A `to` of `#team` posts in its room. Raises `UnknownAgent`, or
    `UnknownTeam`, for a `to` that does not exist.
    """
    if to is not None and to.startswith("#"):
        name = to[1:].lower()
        if name not in directory.teams:
            near = directory.nearest(name, room=True)
            raise UnknownTeam(team=to[1:], nearest=f" (did you mean '{near}'?)" if near else "")
        post = Post(team=name, text=text)
        return Routing(targets=tuple(_deliveries([post], directory, sender=None)), posts=(post,), shown=text)
    if to is not None:
        found = directory.find(to)
        if found is None:
            near = directory.nearest(to)
            raise UnknownAgent(agent=to, nearest=f" (did you mean '{near}'?)" if near else "")
        return Routing(targets=(Target(agent=found[0], team=found[1], text=text, by="prefix"),), shown=text)

    reader = _Reader(directory, sender=None)
    routing = reader.tags(text)
    if (rest := routing.unaddressed) is None:
        return routing
    start = leading(rest)
    if start is not None and start.ids == ("default",):
        if not start.text:
            return replace(routing, unaddressed=None, default=Default.CLEAR)
        reader.say("'@default' clears the default agent only when it stands alone; it was left as text.")
    elif start is not None and (reached := reader.reach("@", start.ids).found):
        alone = not start.text
        if alone and len(start.ids) > 1:
            reader.say(f"Only one agent can be the default; name it alone, such as '@{reached[0].name}'.")
        new = [Target(agent=one.id, team=one.team, text=start.text, by="prefix") for one in reached]
        return replace(
            routing,
            unaddressed=None,
            targets=(*routing.targets, *([] if alone else new)),
            default=reached[0].id if alone and len(start.ids) == 1 else Default.KEEP,
            notices=reader.notices(),
        )
    routing = replace(routing, notices=reader.notices())
    if default is None or default not in directory.agents:
        return routing
    return replace(
        routing, unaddressed=None, targets=(*routing.targets, Target(agent=default, text=rest, by="default"))
    )


def route_answer(text: str, directory: Directory, *, sender: str) -> Routing:
    """An agent's answer: its tags are hand-offs, as far as `sender` may address their ids; a leading `@id` is text.

    The text outside the tags is shared context here too. `shown` is what the person who asked gets to read.
    """
    return replace(_Reader(directory, sender=sender).tags(text), unaddressed=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class _One:
    """An agent or room that an id reaches."""

    #: the agent for `@`, the team for `#`
    id: str
    #: the id as addressed
    name: str
    #: the team, if it was reached through one
    team: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reach:
    found: tuple[_One, ...]
    #: ids that reach nobody: unknown or refused
    left: tuple[str, ...]

    def shown(self, sign: str) -> str:
        """`@a, @b (not @nobody)`: what was not reached stays visible."""
        left = ", ".join(sign + name for name in self.left)
        return ", ".join(sign + one.name for one in self.found) + (f" (not {left})" if left else "")


class _Reader:
    """Reads one message; collects what its sender must be told."""

    def __init__(self, directory: Directory, *, sender: str | None) -> None:
        self._directory = directory
        self._sender = sender  # None: a person, who may address everyone
        self._notices: dict[str, None] = {}
        self._unsaid = 0
        self._looked_up: dict[tuple[str, str], _One | None] = {}

    def say(self, notice: str) -> None:
        self._notices[notice] = None

    def notices(self) -> tuple[str, ...]:
        more = f"{self._unsaid} more addresses could not be used; they were left as text."
        return (*self._notices, *((more,) if self._unsaid else ()))

    def reach(self, sign: str, ids: tuple[str, ...]) -> _Reach:
        found: dict[str, _One] = {}
        left = []
        for name in ids:
            if (sign, name) not in self._looked_up:
                self._looked_up[sign, name] = self._look_up(sign, name)
            one = self._looked_up[sign, name]
            if one is None:
                left.append(name)
            else:
                found.setdefault(one.id, one)
        return _Reach(found=tuple(found.values()), left=tuple(left))

    def _look_up(self, sign: str, name: str) -> _One | None:
        room = sign == "#"
        if room:
            one = _One(id=name, name=name, team=name) if name in self._directory.teams else None
        else:
            agent = self._directory.find(name)
            one = _One(id=agent[0], name=name, team=agent[1]) if agent else None
        refusal = self._refusal(one, room=room) if one else None
        if one is not None and refusal is None:
            return one
        if len(self._notices) >= MAX_NOTICES:  # a flood of names must not cost a search for the nearest name each
            self._unsaid += 1
        elif one is not None:
            self.say(f"You cannot {'post in' if room else 'address'} '{sign}{name}': {refusal}; it was left as text.")
        else:
            near = self._directory.nearest(name, room=room)
            hint = f"; did you mean '{sign}{near}'?" if near else "; it was left as text."
            self.say(f"There is no {'team' if room else 'agent or team'} '{sign}{name}'{hint}")
        return None

    def _refusal(self, one: _One, *, room: bool) -> str | None:
        if self._sender is None:
            return None
        if room:
            return None if self._sender in self._directory.teams[one.id].everyone else "you are not one of its members"
        if self._directory.may_address(self._sender, one.id):
            return None
        return "that is yourself" if one.id == self._sender else "you share no team"

    def tags(self, text: str) -> Routing:
        """The tags and posts of a message; `unaddressed` is the text that no tag takes along."""
        parsed = parse(text)
        for name in parsed.unclosed[:MAX_NOTICES]:
            if self._directory.find(name) is not None:
                self.say(f"The tag for '@{name}' has no closing bracket; it was left as text.")
        live: dict[int, _Reach] = {}
        for at, piece in enumerate(parsed.pieces):
            if isinstance(piece, Tag) and (reach := self.reach(piece.sign, piece.ids)).found:
                live[at] = reach
        if sum(len(reach.found) for reach in live.values()) > MAX_TARGETS:
            self.say(f"One message may have at most {MAX_TARGETS} addresses; all its tags were left as text.")
            live = {}

        plan = _Plan(by="tag" if self._sender is None else "hand-off", context=_context(parsed, live).strip())
        tagged = False
        for at, piece in enumerate(parsed.pieces):
            reach = live.get(at, _NOBODY)
            if isinstance(piece, Connector):
                plan.connect(piece, between_live={at - 1, at + 1} <= live.keys())
            elif isinstance(piece, Tag):
                tagged |= piece.sign == "@" and at in live
                if not plan.add(piece, reach) and at in live:
                    self.say(f"Nothing was sent to {reach.shown(piece.sign)}: the tag is empty.")
            else:
                plan.shown.append(piece.text)
        unaddressed = plan.context if live else _context(parsed, live)
        return Routing(
            targets=(*plan.targets(), *_deliveries(plan.posts, self._directory, sender=self._sender)),
            posts=tuple(plan.posts),
            notices=self.notices(),
            shown="".join(plan.shown),
            unaddressed=None if tagged or (live and not unaddressed) else unaddressed,
        )


def _deliveries(posts: Sequence[Post], directory: Directory, *, sender: str | None) -> list[Target]:
    return [
        Target(agent=agent, text=post.text, by="room", team=post.team)
        for post in posts
        for agent in directory.teams[post.team].everyone
        if agent != sender and agent in directory.agents
    ]


_NOBODY = _Reach(found=(), left=())


def _context(parsed: Parsed, live: Mapping[int, _Reach]) -> str:
    """The message without the tags that are delivered, and without the connectors between two of them."""
    return "".join(
        piece.raw if isinstance(piece, Tag | Connector) else piece.text
        for at, piece in enumerate(parsed.pieces)
        if at not in live and not (isinstance(piece, Connector) and {at - 1, at + 1} <= live.keys())
    )


class _Plan:
    """Lays the tags of one message out as targets, in order."""

    def __init__(self, *, by: By, context: str) -> None:
        self.context = context
        self.posts: list[Post] = []
        self.shown: list[str] = []
        self._by = by
        self._drafts: list[Target] = []
        self._texts: list[list[str]] = []  # per draft
        self._same: dict[tuple[str, tuple[int, ...], bool], int] = {}  # a second tag for the same joins the first
        self._last: tuple[int, ...] = ()  # what a `->` here waits for
        self._ends: dict[int, None] = {}  # what a `=>` here waits for
        self._connector: Connector | None = None

    def targets(self) -> list[Target]:
        return [
            replace(draft, text="\n\n".join(filter(None, (self.context, *texts))))
            for draft, texts in zip(self._drafts, self._texts, strict=True)
        ]

    def connect(self, connector: Connector, *, between_live: bool) -> None:
        self._connector = connector
        self.shown.append("\n" if between_live else connector.raw)

    def add(self, tag: Tag, reach: _Reach) -> bool:
        """Whether anything is delivered; if not, the tag stays visible, and what follows it waits in its place."""
        connector, self._connector = self._connector, None
        if tag.sign == "#":
            self.posts += [Post(team=one.id, text=tag.text) for one in reach.found if tag.text]
            return self._show(tag, reach, "→ ", delivered=bool(tag.text))
        join = connector is not None and connector.join
        after = tuple(self._ends) if join else self._last if connector else ()
        if not reach.found or not (tag.text or self.context or after):
            self._last = after
            return self._show(tag, reach, "", delivered=False)
        how: By = self._by if not after else "join" if join else "chain"
        self._last = tuple(self._target(one, tag.text, how, after) for one in reach.found)
        for index in after:
            self._ends.pop(index, None)
        return self._show(tag, reach, _ARROWS.get(how, "→ "), delivered=True)

    def _target(self, one: _One, text: str, by: By, after: tuple[int, ...]) -> int:
        same = (one.id, after, by == "join")
        if same not in self._same:
            index = self._same[same] = len(self._drafts)
            self._drafts.append(Target(agent=one.id, text="", by=by, team=one.team, after=after, join=by == "join"))
            self._texts.append([])
            self._ends[index] = None
        self._texts[self._same[same]].append(text)
        return self._same[same]

    def _show(self, tag: Tag, reach: _Reach, arrow: str, *, delivered: bool) -> bool:
        delivered = delivered and bool(reach.found)
        text = f": {tag.text}" if tag.text else ""
        self.shown.append(f"{arrow}{reach.shown(tag.sign)}{text}" if delivered else tag.raw)
        return delivered


#: how a delivered tag begins for a reader, when it does not run at once
_ARROWS: Mapping[str, str] = {"chain": "→ then ", "join": "→ after all answers, "}
