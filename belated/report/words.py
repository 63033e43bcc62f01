"""The words of verdicts: how they are shown, which is worse, and what each says."""

from __future__ import annotations

from collections.abc import Sequence

#: How a word is shown.
TONES = {
    "holds": "good",
    "holds, uninformative": "weak",
    "likely holds": "weak",
    "likely holds, uninformative": "weak",
    "matches": "good",
    "uninformative": "weak",
    "vacuous": "dull",
    "no bound": "dull",
    "unclear": "doubt",
    "likely fails": "bad",
    "fails": "bad",
    "identity": "told",
    "shown": "told",
    "bound": "good",
    "doubtful": "doubt",
    "no sign": "good",
    "too few": "dull",
    "depends slightly": "doubt",
    "depends": "bad",
}
#: From bad to good: what many verdicts come to together.
ORDER = (
    "fails",
    "likely fails",
    "unclear",
    "likely holds",
    "holds",
    "matches",
    "likely holds, uninformative",
    "holds, uninformative",
    "vacuous",
    "no bound",
    "identity",
    "shown",
)
#: What of it is a warning, however few of the cells it comes from.
ALARMS = ORDER[:3]
#: What stands beside verdicts and is none.
ASIDE = ("no bound", "identity", "shown")
#: What bands and the columns of tables are.
BANDS = (
    "Bands, and what stands behind ±, are 95% intervals of a mean alone: Student's, longer where values are skewed, an "
    "approximation. <i>Low</i> and <i>high</i> are intervals that hold whatever the law of what was measured, because "
    "it is bounded, for all cells of the verdict together with 99% confidence."
)
#: What every page with verdicts and bands says of them.
MEANING = (
    f"{BANDS} <i>Holds</i> and <i>fails</i> rest on "
    "them; <i>likely</i> says that they do not decide, and that the approximation does, at the same level. "
    "<i>Matches</i> says that an approximate interval contains the number. A bound more than twenty times what was "
    "measured is called uninformative, one that cannot be broken (regret is at most n times the largest gap, or n "
    "times the range of the rewards) vacuous."
)
#: What each word of a verdict says; of many cells together the worst is said.
SAYS = {
    "holds": "the claim is true of every number in an interval that is right whatever the law of what was measured "
    "(it is bounded), with 99% confidence for all cells together; or of what was counted, where nothing is left to "
    "chance",
    "likely holds": "that interval does not decide, but an approximate one does, at the same level (Student's, or the "
    "bootstrap's)",
    "uninformative": "holds, but the bound is more than twenty times what was measured",
    "matches": "an interval of the measured number, 99% and approximate, contains the number that is claimed, or a "
    "test at 1% does not refuse the law; where nothing is left to chance, the two are equal",
    "unclear": "the intervals contain both numbers for which the claim is true and numbers for which it is false",
    "likely fails": "as <i>likely holds</i>, with the opposite outcome",
    "fails": "as <i>holds</i>, with the opposite outcome; or a test at 1% refuses the law",
    "vacuous": "nothing that can be measured would break the bound: regret is never above n times the largest gap, or "
    "n times the range of the rewards (of many cells: most are so)",
    "no bound": "no theorem speaks of it",
    "identity": "an equality or a count that must be so by construction, and was found so, exactly, or as far as "
    "an approximate 99% interval or a test at 1% tells: a check of the program, and no verdict on a claim",
    "shown": "measured and told; nothing is claimed, so that there is no verdict",
}


def says(word: str) -> str:
    """What a word says; nothing for words that explain themselves on their page.

    >>> says("likely holds, uninformative").endswith("twenty times what was measured")
    True
    """
    first, _, more = word.partition(", ")
    return "; ".join(SAYS[each] for each in (first, more) if each in SAYS)


def explained(text: str) -> dict[str, str]:
    """What the words say that a text uses."""
    return {word: said for word, said in SAYS.items() if word in text}


def tallied(words: Sequence[str], short: bool = False) -> str:
    """How often each word came, from bad to good; in short, without saying what is uninformative.

    >>> tallied(["holds", "holds, uninformative", "holds"])
    '2 x holds, 1 x holds (uninformative)'
    >>> tallied(["holds", "holds, uninformative", "holds"], short=True)
    '3 x holds'
    """
    told = [word.partition(", ")[0] for word in words] if short else words
    shown = {word: word.replace(", uninformative", " (uninformative)") for word in ORDER if word in told}
    return ", ".join(f"{told.count(word)} x {said}" for word, said in shown.items())
