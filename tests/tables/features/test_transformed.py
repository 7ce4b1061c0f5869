"""Features from transformers of scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from decoupled_descent.tables.features import Kernel, Transformed
from tests.problems import normal


class Returns(TransformerMixin, BaseEstimator):
    """Returns whatever a function makes of the rows."""

    def __init__(self, function=None):
        self.function = function

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return self.function(X)


def test_features_are_linear_in_what_the_transformer_returns():
    X = normal(40, 3)
    transformer = PolynomialFeatures(2)
    features = Transformed(transformer)
    phi = features.fit_transform(X)
    expected = Kernel("linear").fit_transform(PolynomialFeatures(2).fit_transform(X))
    np.testing.assert_allclose(phi @ phi.T, expected @ expected.T, atol=1e-10)
    np.testing.assert_allclose(features.transform(X[:4]), phi[:4], atol=1e-8)
    assert not hasattr(transformer, "n_features_in_")  # a copy is fitted
    assert features.name == "PolynomialFeatures"


def test_text_stays_sparse():
    texts = ["a red fox", "the blue fox", "a blue sea", "the red sea", "a sea of red"] * 3
    features = Transformed(TfidfVectorizer())
    phi = features.fit_transform(texts)
    assert features.linear_.columns_.sparse
    np.testing.assert_allclose(features.transform(texts[:2]), phi[:2], atol=1e-8)


def test_weights_reach_the_scaling():
    X, weights = normal(20, 3), np.arange(20) % 3
    phi = Transformed(PCA()).fit_transform(X, sample_weight=weights)
    np.testing.assert_allclose(weights @ phi.numpy(), 0, atol=1e-9)


def test_clones():
    features = Transformed(PCA(2), landmarks=50)
    copy = clone(features)
    assert (copy.transformer.n_components, copy.landmarks) == (2, 50)
    assert copy.fit(normal(9, 3)).transform(normal(4, 3)).dtype == torch.float64


BAD = {
    "nan": (Returns(lambda X: X * np.nan), "Returns returned 27 entries that are NaN"),
    "rows": (Returns(lambda X: X[:4]), r"returned shape \(4, 3\) for 9 rows"),
    "vector": (Returns(lambda X: X[:, 0]), r"returned shape \(9,\) for 9 rows"),
    "text": (Returns(lambda X: X.astype(str)), "not numbers"),
    "none": (3, "transformer int has no method 'fit'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_transformers_are_refused(name):
    transformer, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        Transformed(transformer).fit(normal(9, 3))


def test_transformers_are_not_saved():
    with pytest.raises(ValueError, match="StandardScaler cannot be saved"):
        Transformed(StandardScaler()).fit(normal(9, 3)).state()
    with pytest.raises(ValueError, match="not fitted"):
        Transformed(StandardScaler()).transform(normal(9, 3))
