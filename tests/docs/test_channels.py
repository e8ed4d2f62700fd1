"""docs/channels.md: its example is a channel, and its tables say what the code says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from manydesks.channels.base import ChannelDown, ChannelSection, DeliveryFailed
from manydesks.channels.registry import GROUP, Channels
from manydesks.testing.channels import TestLine, complaints, parcel

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "channels.md").read_text(encoding="utf-8")


@pytest.fixture
def example() -> dict[str, Any]:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    space: dict[str, Any] = {"__name__": "pigeon"}
    exec(compile(code, "channels.md", "exec"), space)
    return space


async def test_the_example_is_a_channel(example: dict[str, Any]) -> None:
    channel = example["CHANNEL"]
    assert complaints(channel) == []
    line = TestLine(channel.section(loft="/loft"))
    pigeon = channel.load(line)
    await pigeon.start()
    assert (await pigeon.send(parcel())).id == "pigeon-manydesks-1-0"
    with pytest.raises(DeliveryFailed, match="too heavy"):
        await pigeon.send(parcel(text="an elephant"))
    await pigeon.landed("7", "coo")
    assert [(arrival.key, arrival.text) for arrival in line.arrivals] == [("pigeon_7", "coo")]
    with pytest.raises(ChannelDown):
        await channel.load(TestLine(channel.section(loft="roof"))).start()


def test_the_tables() -> None:
    cells = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert cells == [*ChannelSection.model_fields, *Channels().names()]
    for name in Channels().names():
        assert Channels().get(name).summary in PAGE
    assert f'entry-points."{GROUP}"' in PAGE
