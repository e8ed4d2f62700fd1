"""Whether the published file is whole. A reader finds damage only where it reads; this looks at every page."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw

from manydesks.domain.insight import TABLES, VERSION

#: where SQLite's own head of a file says how long a page is, and how many there are
_PAGE, _PAGES = slice(16, 18), slice(28, 32)
#: of what SQLite finds wrong, so much is told
_MOST = 200


def damage(path: Path) -> str | None:
    """What is wrong with the file, in a few words; None: nothing, or there is no file. Blocks: it reads all of it."""
    if not path.exists():
        return None
    if not path.is_file():
        return "it is no file"
    try:
        if wrong := _length(path):
            return wrong
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        with closing(apsw.Connection(f"{path.absolute().as_uri()}?immutable=1", flags=flags)) as db:
            ((found,),) = db.execute("pragma quick_check(1)").fetchall()
            if found != "ok":
                return _brief(str(found))
            meta = dict(db.execute("select name, value from meta"))
            there = {name for (name,) in db.execute("select name from sqlite_schema where type = 'table'")}
            for name in sorted(there.intersection(TABLES)):
                for _ in db.execute(f"select * from {name}"):
                    pass  # SQLite itself takes any bytes for text
    except (apsw.Error, OSError, UnicodeDecodeError) as error:
        return _brief(str(error))
    lacks = [name for name in ("to_seq", "built_at") if not str(meta.get(name, "")).isdecimal()]
    if lacks:
        return f"it does not say its {lacks[0]}"
    # those of another version may have other names
    missing = [name for name in TABLES if name not in there] if meta.get("version") == str(VERSION) else []
    return f"it has no table '{missing[0]}'" if missing else None


def _length(path: Path) -> str | None:
    """SQLite takes a last page that was cut for one that ends in zeros."""
    with path.open("rb") as file:
        head = file.read(100)
    if not head:
        return "it is empty"
    page, pages = (int.from_bytes(head[part], "big") for part in (_PAGE, _PAGES))
    # 65,536 does not fit into its two bytes
    wanted, there = (65_536 if page == 1 else page) * pages, path.stat().st_size
    is_cut = head.startswith(b"SQLite format 3\0") and there < wanted
    return f"it has {there:,} of {wanted:,} bytes" if is_cut else None


def _brief(words: str) -> str:
    """SQLite begins with a line about which database it is."""
    said = " ".join(line for line in words.splitlines() if not line.startswith("***"))
    return " ".join(said.split())[:_MOST].rstrip(".") or "it is not in order"
