"""`terms_daily` and `topics_daily`: what agents were told of, and what of it is unusual.

A term is a word of at least three letters, in lower case, that is no stop word; or two such words side by side in one
part of a sentence. What has a digit or one of `_ @ / \\` in it is a number, a name or an address, and is left out
whole, as is everything that is not letters. Counted are messages of people and of other agents, not the agent's own
answers and not what the office says. A text that was erased is NULL in silver, and so leaves nothing here.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from manydesks.pipeline.transforms.gold.days import dated
from manydesks.pipeline.transforms.gold.stopwords import STOP_WORDS
from manydesks.pipeline.transforms.ledger import quoted
from manydesks.pipeline.transforms.transcripts import TOLD

#: how many days before are held against a day
PAST = 28
#: of an agent and day
MOST = 50
LEAST_LETTERS, MOST_LETTERS = 3, 40

#: the words of a text one after the other, and what is left out between them: a piece of text with a digit and the like
#: in it, a word with an apostrophe, what parts a sentence. Only a word is in the group, so nothing is side by side
#: across what is left out. A piece is looked at only where it begins: from every letter of a long one, that would take
#: minutes
WORDS = "|".join(
    (
        r"(?<!\S)[^\s\p{N}_@/\\]*+[\p{N}_@/\\]\S*",
        r"([\p{L}\p{M}]++)(?!['’]\p{L})",
        r"[\p{L}\p{M}]++(?:['’][\p{L}\p{M}]++)+",
        r"[.,;:!?()\[\]{}\"|\t\n\r…—–•“”„«»。、，！？；：「」؟،؛।]+",
    )
)
#: whether a `token` is one that counts
IS_WORD = (
    f"length(token) between {LEAST_LETTERS} and {MOST_LETTERS}"
    f" and token not in ({', '.join(map(quoted, sorted(STOP_WORDS)))})"
)


def asked(transcripts: DataFrame) -> DataFrame:
    """What people and other agents said to an agent; not what the office told it again, with answers from elsewhere."""
    told = F.coalesce(F.col("operation"), F.lit("")) == TOLD
    return transcripts.where((F.col("role") == "user") & F.col("agent").isNotNull() & ~told)


def terms_of_silver(transcripts: DataFrame, parts: int = 1) -> DataFrame:
    """`terms_daily` of the days of these messages; `parts`: to be worked on side by side."""
    said = dated(asked(transcripts), "at").where(F.col("text").isNotNull())
    if parts > 1:
        # as they are counted, so that only the texts are moved, and not the many words that are made of them
        said = said.repartition(parts, "day", "agent")
    # step by step, so that nothing is worked out twice
    tokens = F.regexp_extract_all(F.lower("text"), F.lit(WORDS), F.lit(1))
    kept = F.expr(f"transform(tokens, token -> case when {IS_WORD} then token end)")
    pairs = F.expr("zip_with(kept, slice(kept, 2, size(kept)), (one, other) -> concat(one, ' ', other))")
    terms = (
        said.select("day", "agent", tokens.alias("tokens"))
        .select("day", "agent", kept.alias("kept"))
        .select("day", "agent", F.sort_array(F.array_compact(F.concat("kept", pairs))).alias("terms"))
    )
    # sorted, the same ones lie together: the first of each counts its message. Not `array_sort`, which asks a function
    # about each two of them
    first = "cast(at = 0 or get(terms, at - 1) != term as long)"
    flagged = terms.selectExpr(
        "day", "agent", f"explode(transform(terms, (term, at) -> struct(term, {first} as first))) as found"
    )
    counted = flagged.groupBy("day", "agent", F.col("found.term").alias("term")).agg(
        F.sum("found.first").alias("messages"), F.count(F.lit(1)).alias("count")
    )
    words = F.when(F.instr("term", " ") > 0, F.lit(2)).otherwise(F.lit(1)).cast("long")
    return counted.select("day", "agent", "term", words.alias("words"), "messages", "count")


def topics_of_terms(terms: DataFrame, agents: DataFrame) -> DataFrame:
    """`topics_daily`; right for days whose past is in `terms`, too. `agents`: each with its `first_day`."""
    day = F.unix_date(F.to_date("day")).cast("long")
    numbered = terms.withColumn("number", day)
    past = Window.partitionBy("agent", "term").orderBy("number").rangeBetween(-PAST, -1)
    began = F.unix_date(F.to_date("first_day")).cast("long")
    days = F.least(F.col("number") - F.col("began"), F.lit(PAST))
    before = F.coalesce(F.sum("count").over(past), F.lit(0))
    known = numbered.withColumn("before", before).join(
        F.broadcast(agents.select("agent", began.alias("began"))), "agent"
    )
    expected = F.when(days > 0, F.col("before") / days).otherwise(F.lit(0.0))
    scored = known.withColumn("expected", F.round(expected, 4))
    burst = F.round((F.col("count") - F.col("expected")) / F.sqrt(F.col("expected") + 1), 4)
    ranked = scored.withColumn("burst", burst).withColumn(
        "rank", F.row_number().over(Window.partitionBy("day", "agent").orderBy(F.col("burst").desc(), "term"))
    )
    return ranked.where(F.col("rank") <= MOST).drop("rank", "number", "before", "began")
