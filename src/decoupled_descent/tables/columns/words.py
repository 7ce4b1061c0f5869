"""Free text as numbers: TF-IDF weights of the words that occur in several rows."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_TERMS = 500  # the most columns for one column of text
FEWEST_ROWS = 3  # the fewest rows in which a word must occur
TOO_COMMON = 0.5  # words in a larger fraction of the rows are not used
WORDY = 4  # the fewest words, in the median text, of sentences; other texts are names
WORD = r"(?u)\b\w\w+\b"  # at least two characters, as in scikit-learn


def is_wordy(texts: Sequence[str]) -> bool:
    """Whether texts are sentences rather than names."""
    return bool(texts) and float(np.median([len(re.findall(WORD, t)) for t in texts])) >= WORDY


def learn_terms(texts: Sequence[str]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Choose the most frequent words, except very common ones; return them with their weights.

    The weights are scikit-learn's, log((1 + n)/(1 + rows with the word)) + 1.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectoriser = TfidfVectorizer(
        token_pattern=WORD, min_df=FEWEST_ROWS, max_df=TOO_COMMON, max_features=MOST_TERMS
    )
    try:
        vectoriser.fit(texts)
    except ValueError:  # no word is left
        return (), ()
    terms = sorted(vectoriser.vocabulary_, key=lambda term: vectoriser.vocabulary_[term])
    return tuple(terms), tuple(float(weight) for weight in vectoriser.idf_)


def tf_idf(texts: Sequence[str], terms: Sequence[str], weights: Sequence[float]) -> Floats:
    """TF-IDF: logarithmic counts of the terms times their weights, rows scaled to norm 1."""
    place = {term: k for k, term in enumerate(terms)}
    counts = np.zeros((len(texts), len(terms)))
    for row, text in enumerate(texts):
        for word in re.findall(WORD, text.lower()):
            if word in place:
                counts[row, place[word]] += 1
    here = counts > 0
    weighted = np.where(here, 1 + np.log(np.where(here, counts, 1.0)), 0.0) * weights
    sizes = np.sqrt(np.square(weighted).sum(1, keepdims=True))
    return np.asarray(weighted / np.where(sizes > 0, sizes, 1.0), np.float64)
