r"""Feature maps: linear, kernels, and transformers of scikit-learn, with uncorrelated columns.

Every map here gives features that are centred, uncorrelated and of mean squared norm 1 on its
training rows, largest variance first (see ``decomposition.py``). Ridge
regression and its leave-one-out then need no further decomposition, for any ridge. Labels are not
used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from decoupled_descent.checks import real_number, whole_number
from decoupled_descent.rows.inputs import piece_size
from decoupled_descent.rows.sources import Source
from decoupled_descent.rows.store import MEMORY, Store
from decoupled_descent.tables.features.decomposition import (
    FeatureMap,
    IndefiniteError,
    blocks,
    from_columns,
    from_kernel,
    from_sparse_columns,
    leading_directions,
    product,
)
from decoupled_descent.tables.features.interface import Features
from decoupled_descent.tables.features.kernels import (
    KERNELS,
    UNSCALED,
    Geometry,
    Units,
    check_symmetric,
    kernel_name,
    own_kernel,
)
from decoupled_descent.tables.features.scaling import ColumnScales, as_matrix, as_rows, is_sparse
from decoupled_descent.tables.features.shared import ScaledRows, TrainingRows
from decoupled_descent.tables.prediction.predictor import features

#: A kernel's name, with a scale and ranks if wanted.
_NAME = re.compile(r"(?P<kind>\w+)(?:\((?P<scale>[^()]+)\))?(?P<ranks>/ranks)?")


class Kernel(Features):
    r"""Features of a kernel: φ with φ(x)·φ(x') = k(x, x'), centred and scaled.

    Columns are scaled first (``ColumnScales`` of ``scaling.py``). Up to
    ``landmarks`` rows the features are exact. Above, they are those of Nyström's approximation: φ
    is a linear map of k(x, Z), with landmarks Z drawn from the rows uniformly. Linear features need
    no landmarks; when both sides of X are longer than ``landmarks``, they are that many leading
    directions. A row of weight 2 counts as two equal rows; this is exact if features are.

    Memory: features made with landmarks take at most 1 GiB (with more than 67,000 rows there are
    2²⁷/n landmarks), linear features of dense rows as much as X, in its precision. On top of that
    come eight matrices of landmarks × landmarks or d × d in float64, and pieces of 4 MiB.

    Args:
        kind: ``"linear"``, ``"rbf"``, ``"matern"``, ``"laplace"``, ``"laplace1"``, ``"poly2"``,
            ``"arccos"`` (formulas in ``kernels.py``), or a function
            ``k(A, B)`` that returns the (a, b) matrix of two sets of scaled rows, float64 tensors.
        scale: Width of the kernel relative to the mean distance of two training rows.
        ranks: Replace every column by the normal scores of its ranks first.
        landmarks: Rows up to which features are exact, and number of landmarks above.
        seed: Decides which rows are landmarks.

    Example:
        >>> X = torch.linspace(-1, 1, 50, dtype=torch.float64)[:, None]
        >>> phi = Kernel("rbf").fit_transform(X)
        >>> phi.shape[0], round(float(phi.square().sum(1).mean()), 6)
        (50, 1.0)
    """

    def __init__(
        self,
        kind: Any = "rbf",
        scale: float = 1.0,
        ranks: bool = False,
        landmarks: int = 2000,
        seed: int = 0,
    ) -> None:
        self.kind = kind
        self.scale = scale
        self.ranks = ranks
        self.landmarks = landmarks
        self.seed = seed

    @property
    def name(self) -> str:
        """Kind, scale and ranks: ``"matern(2)/ranks"``."""
        own = callable(self.kind)
        scale = "" if own or self.kind in UNSCALED else f"({self.scale:g})"
        kind = kernel_name(self.kind) if own else self.kind
        return f"{kind}{scale}{'/ranks' if self.ranks else ''}"

    @property
    def takes_sparse(self) -> bool:
        """Linear features have products of sparse matrices."""
        return self.is_linear

    @property
    def is_linear(self) -> bool:
        """Whether the features are the scaled columns."""
        return self._columns_only and not self.ranks

    @property
    def learnt_sparse(self) -> bool:
        """Whether the map was learnt from a sparse matrix."""
        return self.columns_.sparse

    @property
    def _columns_only(self) -> bool:
        """Whether features are linear in the scaled columns, or in their ranks: no landmarks."""
        return isinstance(self.kind, str) and self.kind == "linear"

    @classmethod
    def from_name(cls, name: str) -> Kernel | None:
        """Read ``kind(scale)/ranks``."""
        match = _NAME.fullmatch(name)
        if match is None or match["kind"] not in KERNELS:
            return None
        try:
            scale = float(match["scale"] or 1)
        except ValueError:
            raise ValueError(f"features={name!r}: the scale must be a number") from None
        kernel = cls(match["kind"], scale, match["ranks"] is not None)
        kernel.check()
        return kernel

    def width(self, n: int, d: int) -> int:
        """The number of columns, or of landmarks."""
        return d if self._columns_only else min(n, self.landmarks)

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Tensor:
        """Learn the map; linear features also take a sparse matrix of SciPy."""
        return self.fit_shared(TrainingRows(X, sample_weight))

    def fit_rows(self, X: Any, sample_weight: Any = None) -> Tensor | Source:
        """Learn the map and return what the features of the training rows can be read from."""
        return self._fit(TrainingRows(X, sample_weight))

    def fit_shared(self, training: TrainingRows) -> Tensor:
        """Learn the map from rows that several maps share, and return their features."""
        phi = self._fit(training)
        return phi.matrix_of_all() if isinstance(phi, Store) else phi

    def _fit(self, training: TrainingRows) -> Tensor | Store:
        self.check()
        if is_sparse(training.X) and not self._columns_only:
            raise ValueError(
                f"X is sparse, which only linear features can use; kind={self.name!r} needs "
                "X.toarray() or fewer columns, for example from TruncatedSVD"
            )
        scaled = training.scaled(bool(self.ranks))
        self.columns_ = scaled.columns
        n = scaled.shape[0]
        phi: Tensor | Store
        if self._columns_only:
            phi = self._fit_linear(scaled)
        elif n <= _most(self.landmarks, n):
            phi = self._fit_exactly(scaled)
        else:
            phi = self._fit_landmarks(scaled)
        if training.complete:
            return phi
        return self._with_absent(training, phi.matrix_of_all() if isinstance(phi, Store) else phi)

    def transform(self, X: Any) -> Tensor:
        """Return the features of rows, shape (m, r); training rows get their training features."""
        self._check_fitted()
        X = as_matrix(X)
        if not (is_sparse(X) or self.learnt_sparse or callable(self.kind)):
            self.columns_.check(X)
            settings, tensors = self.state()
            arrays = {name: value.cpu().numpy() for name, value in tensors.items()}
            return torch.from_numpy(features(settings, arrays, X.cpu().numpy())).to(X.device)
        m = X.shape[0]
        phi = self.map_.shift.new_empty(m, len(self.map_.shift))
        for rows in blocks(m, max(self.map_.projection.shape)):
            phi[rows] = self.map_(self._raw(X[rows]))
        return phi

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return what :meth:`restore` needs; ``ValueError`` for a kernel function of one's own."""
        self._check_fitted()
        if callable(self.kind):
            raise ValueError(
                f"kernel {self.name} is a function, which cannot be saved; use one of {_choices()}"
            )
        columns, tensors = self.columns_.state()
        tensors |= {name: getattr(self.map_, name).contiguous() for name in FeatureMap._fields}
        settings = self.get_params() | {"columns": columns}
        if not self._columns_only:
            settings["units"] = list(self.units_)
            tensors["landmarks"] = self.landmark_rows_.contiguous()
        return settings, tensors

    @classmethod
    def restore(cls, settings: dict[str, Any], tensors: dict[str, Tensor]) -> Kernel:
        """Restore fitted features from what :meth:`state` returned.

        Args:
            settings: The plain settings.
            tensors: The tensors by name, which were checked.
        """
        kernel = cls(**{name: settings[name] for name in cls.parameter_names()})
        kernel.check()
        kernel.columns_ = ColumnScales.restore(settings["columns"], tensors)
        kernel.map_ = FeatureMap(*(tensors[name] for name in FeatureMap._fields))
        if not kernel._columns_only:
            kernel.landmark_rows_ = tensors["landmarks"]
            kernel.units_ = Units(*map(float, settings["units"]))
        return kernel

    def check(self) -> None:
        """Raise ``ValueError`` for arguments that make no sense."""
        if not callable(self.kind) and (not isinstance(self.kind, str) or self.kind not in KERNELS):
            raise ValueError(
                f"kind={self.kind!r} must be a function k(A, B) or one of {_choices()}"
            )
        if not real_number("scale", self.scale) > 0:
            raise ValueError(f"scale={self.scale!r} must be positive")
        if self.scale != 1 and (callable(self.kind) or self.kind in UNSCALED):
            raise ValueError(f"scale={self.scale!r} has no effect with {self.name}; leave it at 1")
        if self.ranks not in (True, False):
            raise ValueError(f"ranks={self.ranks!r} must be True or False")
        whole_number("landmarks", self.landmarks, least=2)
        whole_number("seed", self.seed, least=0)

    def _matrix(self, geometry: Geometry) -> Tensor:
        if callable(self.kind):
            return own_kernel(self.kind, geometry.A, geometry.B)
        return KERNELS[self.kind](geometry, self.scale)

    def _raw(self, X: Any) -> Any:
        """Scaled rows, or their kernel values with the landmarks."""
        A = self.columns_.apply(X)
        if self._columns_only:
            return A
        return self._matrix(Geometry(A, self.landmark_rows_, self.units_))

    def _decompose(self, K: Tensor, weights: Tensor) -> tuple[FeatureMap, Tensor]:
        if callable(self.kind):
            check_symmetric(self.kind, K)
        try:
            return from_kernel(K, weights, len(K))
        except IndefiniteError as problem:
            raise ValueError(
                f"kernel {self.name} is not positive semi-definite: its centred matrix {problem}"
            ) from None

    def _fit_exactly(self, scaled: ScaledRows) -> Tensor:
        self.landmark_rows_, self.units_ = scaled.rows, scaled.units
        self.map_, phi = self._decompose(self._matrix(scaled.geometry), scaled.all_weights)
        return phi

    def _fit_landmarks(self, scaled: ScaledRows) -> Store:
        """Features k(x, Z) P₁ of the landmarks' own decomposition, rotated to be uncorrelated."""
        n = scaled.shape[0]
        m = _most(self.landmarks, n)
        order = torch.randperm(n, generator=torch.Generator().manual_seed(self.seed))
        chosen = order[:m].sort().values
        self.landmark_rows_ = scaled.take(chosen)
        self.units_ = scaled.units
        K = self._matrix(Geometry(self.landmark_rows_, self.landmark_rows_, self.units_))
        first, _ = self._decompose(K, self.landmark_rows_.new_ones(m))
        del K, _
        phi = Store(scaled.inputs.here, len(first.values), scaled.inputs)
        for rows, A in scaled.parts(m):
            phi.write(rows, first(self._matrix(Geometry(A, self.landmark_rows_, self.units_))))
        del self.landmark_rows_  # they are taken again: the rotation needs the memory
        phi = self._rotate(phi, scaled, first.projection, first.shift)
        self.landmark_rows_ = scaled.take(chosen)
        return phi

    def _rotate(self, phi: Store, scaled: ScaledRows, projection: Tensor, shift: Tensor) -> Store:
        """Make features raw(x) P − shift uncorrelated, in place."""

        def parts() -> Iterator[tuple[slice, Tensor]]:
            for span, part, _ in phi.parts(piece_size(phi.d)):
                yield span, part

        turn = from_columns(parts, scaled.weights, phi.d, scaled.total)
        for rows, part in parts():
            phi.write(rows, turn(part))
        phi.narrow(len(turn.values))
        shift = shift @ turn.projection + turn.shift
        self.map_ = FeatureMap(projection @ turn.projection, shift, turn.values)
        return phi

    def _fit_linear(self, scaled: ScaledRows) -> Tensor | Store:
        """Linear features: from the columns' moments, the rows' products, or iteratively."""
        weights, (n, d) = scaled.weights, scaled.shape
        sparse = is_sparse(scaled.inputs)
        most = _most(self.landmarks, max(n, d)) if sparse else min(n, d)
        if min(n, d) > self.landmarks:
            most = _most(self.landmarks, max(n, d))
            basis = leading_directions(scaled.parts, weights, most, self.seed, scaled.total)
            phi = self._stored(scaled, most, lambda A: product(A, basis))
            return self._rotate(phi, scaled, basis, basis.new_zeros(most))
        if d <= n:
            if sparse:
                self.map_ = from_sparse_columns(scaled.rows, weights, most)
            else:
                self.map_ = from_columns(scaled.parts, weights, most, scaled.total)
            return self._stored(scaled, len(self.map_.values), self.map_.__call__)
        A = scaled.rows
        K = torch.from_numpy((A @ A.T).toarray()) if sparse else A @ A.T
        dual, exact = from_kernel(K, scaled.all_weights, most)
        self.map_ = dual._replace(projection=product(A.T, dual.projection).contiguous())
        return exact

    def _stored(self, scaled: ScaledRows, r: int, function: Callable[[Any], Tensor]) -> Store:
        """Features of all rows, made piece by piece."""
        store: Store | None = None
        for rows, A in scaled.parts(r):
            phi = function(A)
            if store is None:
                like = as_rows(phi) if is_sparse(A) else scaled.inputs
                store = Store(like.here, r, like)
            store.write(rows, phi)
        assert store is not None
        return store

    def _with_absent(self, training: TrainingRows, phi: Tensor) -> Tensor:
        """Features of all rows; rows of weight zero are treated as new rows."""
        absent = torch.ones(training.count, dtype=torch.bool)
        absent[training.present] = False
        full = phi.new_empty(len(absent), phi.shape[1])
        full[training.present] = phi
        full[absent] = self.transform(training.take(absent.nonzero().squeeze(1)))
        return full


def _most(landmarks: int, length: int) -> int:
    """The largest number of features for a side of X of some length."""
    return max(2, min(landmarks, MEMORY // (8 * length)))


def _choices() -> str:
    return ", ".join(map(repr, KERNELS))
