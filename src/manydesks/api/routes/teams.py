"""Teams, and what is said in their rooms."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from manydesks.api.office import Office
from manydesks.api.routes.messages import check_size
from manydesks.api.shapes.base import DIGITS, MOST, Limit, TeamId, errors
from manydesks.api.shapes.people import Changed, Post, Posted, PostGiven, Team, TeamChanged, TeamGiven, check_needed
from manydesks.domain.errors import BadInput, UnknownAgent, WrongState
from manydesks.domain.ids import new_id
from manydesks.store.directory import unknown_team
from manydesks.store.reader import Reader
from manydesks.store.versions import TEAM, version_of
from manydesks.store.versions import check as check_version

#: who said it, where no agent did, for clients that know agents alone; no agent can be called so
PERSON = "user"
#: what a new team cannot do without
NEEDED = ("name", "agents", "leader_agent")
Since = Annotated[int, Query(ge=0, le=MOST, description="Only posts with a higher number."), DIGITS]


def routes(office: Office) -> APIRouter:
    router = APIRouter(tags=["teams"])

    @router.get("/api/teams", response_model=dict[str, Team], summary="Teams, by id")
    async def everyone() -> dict[str, Any]:
        return {row["id"]: _shown(row) for row in await office.read(lambda reader: reader.teams())}

    @router.get("/api/teams/{id}", response_model=Team, responses=errors(404), summary="One team")
    async def one(id: TeamId) -> dict[str, Any]:
        def look(reader: Reader) -> dict[str, Any]:
            known = {row["id"]: row for row in reader.teams()}
            if id not in known:
                raise unknown_team(id, known)
            return known[id]

        return _shown(await office.read(look))

    @router.put(
        "/api/teams/{id}", response_model=TeamChanged, responses=errors(409, 413, 415), summary="Make or change a team"
    )
    async def put(id: TeamId, given: TeamGiven) -> dict[str, Any]:
        """A new one needs `name`, `agents` and `leader_agent`; of one that is there, what is not given stays. Who is
        given is in it, and nobody else; the leader always is."""
        if given.id not in (None, id):
            raise BadInput(f"'id' cannot be changed; the address names '{id}'.")
        try:
            async with office.writing:
                done = await _put(office, id, given)
        except UnknownAgent as error:
            raise BadInput(str(error)) from None  # a field of the body, not what the address names
        team = _shown(done)
        return {"ok": True, "team": team, "version": team["version"], "notices": done.get("notices", [])}

    @router.delete(
        "/api/teams/{id}", response_model=Changed, responses=errors(404, 413, 415), summary="Dissolve a team"
    )
    async def remove(id: TeamId) -> dict[str, Any]:
        """Its members stay, and what was said in its room can still be read."""
        done = await office.act("team_remove", id=id)
        return {"ok": True, "notices": done.get("notices", [])}

    @router.get(
        "/api/chatroom/{team}", response_model=list[Post], responses=errors(404), summary="What was said in a room"
    )
    async def room(team: TeamId, since: Since = 0, since_id: Since = 0, limit: Limit = 100) -> list[dict[str, Any]]:
        """The last of it above a number, which has two names, oldest first."""

        def look(reader: Reader) -> list[dict[str, Any]]:
            posts = reader.posts(team, after=max(since, since_id), limit=limit)
            # the room of a team that is no more can still be read
            if not posts and not reader.posts(team, limit=1):
                _known(reader, team)
            return posts

        posts = await office.read(look)
        return [
            {
                **post,
                "teamId": team,
                "message": post["text"],
                "team_id": team,
                "from_agent": post["fromAgent"] or PERSON,
                "created_at": post["createdAt"],
            }
            for post in posts
        ]

    @router.post(
        "/api/chatroom/{team}",
        response_model=Posted,
        responses=errors(404, 413, 415),
        summary="Say something in a room",
    )
    async def post(team: TeamId, given: PostGiven) -> dict[str, Any]:
        """To every member, as it is: addresses in it are not read."""
        check_size(office, given.message)
        await office.read(lambda reader: _known(reader, team))
        done = await office.act(
            "message",
            text=given.message,
            agent=f"#{team}",
            sender=given.sender,
            conversation=given.sender,
            message_id=new_id("chatroom"),
        )
        number = await office.read(lambda reader: reader.post_of(team, done["traceId"]))
        return {"ok": True, "id": number or 0, "messageId": done["messageId"]}

    return router


async def _put(office: Office, id: str, given: TeamGiven) -> dict[str, Any]:
    known = {row["id"]: row for row in await office.read(lambda reader: reader.teams())}
    if id not in known:
        try:
            return await _added(office, id, given)
        except BadInput:
            # somebody at a terminal may have made it in this moment
            known = {row["id"]: row for row in await office.read(lambda reader: reader.teams())}
            if id not in known:
                raise
    sent = {"name": given.name, "leader_agent": given.leader_agent, "agents": given.agents}
    names = {"name": "name", "leader_agent": "leader", "agents": "exactly"}
    changes = {names[field]: value for field, value in sent.items() if field in given.model_fields_set}
    if not changes:
        check_version(known[id], TEAM, given.version, f"The team '{id}'")
        return known[id]
    return await office.act("team_edit", id=id, **changes, version=given.version)


async def _added(office: Office, id: str, given: TeamGiven) -> dict[str, Any]:
    if given.version is not None:
        raise WrongState(f"There is no team '{id}', so it is not as you read it; without a version it is made.")
    check_needed("team", given, NEEDED)
    return await office.act("team_add", id=id, name=given.name, leader=given.leader_agent, members=given.agents)


def _known(reader: Reader, team: str) -> None:
    known = [row["id"] for row in reader.teams()]
    if team not in known:
        raise unknown_team(team, known)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "agents": row["members"], "leader_agent": row["leader"], "version": version_of(row, TEAM)}
