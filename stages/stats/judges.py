"""One score from several judges, or from several replies of one judge.

Scores come as ``(n_interventions, n_judges)``, NaN where a judge gave none. What the judges' score
is worth (agreement, alpha) is in `agreement`; their variance in an interval is in `variance`.
"""

import numpy as np
from numpy.typing import ArrayLike

from stages.stats.interval import BoolArray, FloatArray


def mean_score(scores: ArrayLike) -> tuple[FloatArray, BoolArray]:
    """Mean over the judges that gave a score.

    Returns
    -------
    scores, exists : arrays (n,)
        ``exists`` is False, and the score 0 and without meaning, where no judge gave one.
    """
    table = np.asarray(scores, dtype=np.float64)
    given = ~np.isnan(table)
    count = given.sum(axis=1)
    total = np.where(given, table, 0.0).sum(axis=1)
    return total / np.maximum(count, 1), count > 0


def majority(scores: ArrayLike) -> tuple[FloatArray, BoolArray]:
    """The value that more judges gave than any other.

    Returns
    -------
    scores, exists : arrays (n,)
        ``exists`` is False, and the score 0 and without meaning, where no judge gave one or two
        values share the lead: a tie is no verdict.
    """
    table = np.asarray(scores, dtype=np.float64)
    values = np.unique(table[~np.isnan(table)])
    if not len(values):
        return np.zeros(len(table)), np.zeros(len(table), dtype=np.bool_)
    votes = (table[:, :, None] == values).sum(axis=1)
    lead = votes.max(axis=1)
    exists = (lead > 0) & ((votes == lead[:, None]).sum(axis=1) == 1)
    return np.where(exists, values[votes.argmax(axis=1)], 0.0), exists
