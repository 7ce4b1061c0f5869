r"""What decoupled descent assumes of the noise, when it is not i.i.d. of variance 1/d.

The two corrections of the paper come from one fact, E[z_i z_iᵀ] = I/d for the noise z_i of a row.
With E[z_i z_iᵀ] = w_i C/d they become

.. math::
   h_t &= X\theta_t + \tfrac{\mathrm{tr}\,C}{d}\, w \odot
   \eta_1\textstyle\sum_{s<t}\eta_0^{t-1-s}\hat h_s \\
   \tilde\theta_t &= X^\top\hat h_t - \alpha\, C\theta_t \bar J_t^\top, \qquad
   \bar J_t = \tfrac1n\sum_r w_r \nabla_h g(h_{t,r}, y_r, a_t) :

The first follows because x_iᵀ Σ_j x_j ĥ_j contains the row's own term ‖z_i‖² ĥ_i ≈ w_i (tr C/d)
ĥ_i, the second from Stein's lemma, E[z_i g(z_iᵀθ)] = (w_i C/d) θ E[∇g]ᵀ.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from decoupled_descent.checks import outside, real_number
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.tensors import as_floats, check_finite

#: θ ↦ θC for θ of shape (L, d).
Operator = Callable[[Tensor], Tensor]
#: Eigenvalues of C in this many groups are as good as all of them where only means of smooth
#: functions of them are needed.
GROUPS = 64


class ScalingWarning(UserWarning):
    """The features are not scaled to noise variance 1/d, so the corrections will be off."""


class Noise:
    """Independent noise of variance 1/d, the paper's: C = I, w = 1. Other models subclass it.

    Attributes:
        lifts: The assumptions of decoupled descent that are not needed with this model.
    """

    lifts: frozenset[str] = frozenset()
    #: Whether the covariance is unknown, and responses are measured on the rows.
    measured = False

    def check(self, rows: Rows) -> None:
        """Warn when rows of X are far from norm one; raise ``ValueError`` for rows of others."""
        norm = float(rows.mean(rows.squares)) ** 0.5
        if not 0.5 <= norm <= 2:
            warnings.warn(
                f"the rows of X have root-mean-square norm {norm:.3g}, but decoupled descent "
                "assumes noise of variance 1/d, that is norm 1: standardise the columns and divide "
                "by √d, or the train error will not track the test error",
                ScalingWarning,
                stacklevel=outside(),
            )

    def coloured(self, theta: Tensor) -> Tensor:
        """Return θC, shape (L, d)."""
        return theta

    def level(self, rows: Rows) -> float | Tensor | None:
        """Return tr C/d; None for one."""
        return None

    def coherence(self, rows: Rows) -> float:
        """Return the mean square of z_i·z_j for two rows, as a share of ‖z_i‖² ‖z_j‖²."""
        return 1 / rows.d

    def pair_variance(self, overlap: Tensor, rows: Rows) -> Tensor:
        """The variance that pairs of rows add to a mean loss; see ``DecoupledDescent``.

        ``overlap`` is Σ_i M_i ĥ_iᵀ, with −x_i M_i what row i added to θ, shape (L, L).
        """
        B = overlap / rows.n
        return (B * B.T).sum() * self.coherence(rows)

    def spectrum(self, rows: Rows) -> Tensor:
        """Return the eigenvalues of C, all of them or means of groups of equal size, (S,)."""
        return rows.like.new_ones(1)

    def variances(self, rows: Rows) -> Tensor:
        """Return d times the variance of each column, (d,), if columns are independent."""
        return self.spectrum(rows).expand(rows.d)

    def limit(self) -> Tensor | None:
        """Return C for state evolution, None for the identity, or raise ``ValueError``."""
        return None

    def spread(self, theta: Tensor, rows: Rows) -> Tensor:
        """Return the standard deviations of the noise in h, √(θ_jᵀCθ_j w̄/d), shape (L,)."""
        variance: Tensor = (theta * self.coloured(theta)).sum(1) / rows.d
        if (shares := self.shares_of(rows)) is not None:
            variance = variance * rows.mean(shares)
        return variance.clamp_min(0).sqrt()

    def shares_of(self, rows: Rows) -> Tensor | None:
        """Return w, the weights in J̄, of these rows or this mini-batch; None for equal weights."""
        return None

    def memory_direction(self, direction: Tensor, rows: Rows) -> Tensor:
        """Return what ĥᵀ, shape (L, n), adds to the memory before the rates: (tr C/d) w ⊙ ĥ."""
        if (level := self.level(rows)) is not None:
            direction = direction * level
        if (shares := self.shares_of(rows)) is not None:
            direction = direction * shares
        return direction


@dataclass(frozen=True, eq=False)
class Covariance(Noise):
    r"""Rows whose noise has covariance C/d, for a given C.

    Args:
        matrix: C: of shape (d, d), symmetric; its diagonal, of shape (d,); or a function that takes
            θ of shape (L, d) to θC.
        trace: tr C, for a function; read off the matrix otherwise.

    Example:
        >>> noise = Covariance(torch.tensor([2.0, 0.0]))
        >>> noise.coloured(torch.ones(1, 2))
        tensor([[2., 0.]])
    """

    matrix: Tensor | Operator
    trace: float | None = None
    lifts = frozenset({"white noise"})

    def __post_init__(self) -> None:
        """Check the matrix."""
        if not isinstance(self.matrix, Tensor):
            if not callable(self.matrix) or self.trace is None or not self.trace > 0:
                raise ValueError(
                    f"matrix={self.matrix!r} must be a tensor of shape (d, d) or (d,), or a "
                    f"function θ ↦ θC together with a positive trace, which is {self.trace!r}"
                )
            return
        check_finite("matrix", self.matrix)
        if self.matrix.ndim not in (1, 2) or len(set(self.matrix.shape)) != 1:
            raise ValueError(
                f"matrix has shape {tuple(self.matrix.shape)}; it must be (d, d), or (d,) for a "
                "diagonal"
            )
        if self.matrix.ndim == 2 and not torch.allclose(self.matrix, self.matrix.T):
            raise ValueError("matrix is not symmetric, so it is no covariance; pass (C + Cᵀ)/2")
        diagonal = _diagonal(self.matrix)
        if bool((diagonal < 0).any()) or not float(diagonal.sum()) > 0:
            raise ValueError(
                f"matrix has variances from {float(diagonal.min()):g} to "
                f"{float(diagonal.max()):g}; they must be at least 0, and not all 0"
            )

    def check(self, rows: Rows) -> None:
        """Raise ``ValueError`` when C has another size or precision than the rows."""
        if not isinstance(self.matrix, Tensor):
            return
        if self.matrix.shape not in ((rows.d,), (rows.d, rows.d)):
            raise ValueError(
                f"matrix has shape {tuple(self.matrix.shape)} but X has d = {rows.d} columns; it "
                f"must be ({rows.d}, {rows.d}), or ({rows.d},) for a diagonal"
            )
        _check_like("matrix", self.matrix, rows)

    def coloured(self, theta: Tensor) -> Tensor:
        """Return θC, shape (L, d)."""
        if not isinstance(self.matrix, Tensor):
            return self.matrix(theta)
        return theta @ self.matrix if self.matrix.ndim == 2 else theta * self.matrix

    def level(self, rows: Rows) -> float | Tensor:
        """Return tr C/d."""
        if isinstance(self.matrix, Tensor):
            return _diagonal(self.matrix).mean()
        assert self.trace is not None
        return self.trace / rows.d

    def coherence(self, rows: Rows) -> float:
        """Return tr(C²)/(tr C)²; for a function, 1/d, its smallest value, that of white noise."""
        if not isinstance(self.matrix, Tensor):
            return 1 / rows.d
        return float(self.matrix.square().sum() / _diagonal(self.matrix).sum().square())

    def spectrum(self, rows: Rows) -> Tensor:
        """Return means of the eigenvalues of C in ``GROUPS`` groups, from small to large."""
        C = self.limit()
        values = C.sort().values if C.ndim == 1 else torch.linalg.eigvalsh(C.double()).clamp_min(0)
        groups = torch.tensor_split(values, min(GROUPS, len(values)))
        return torch.stack([group.mean() for group in groups]).to(rows.like)

    def variances(self, rows: Rows) -> Tensor:
        """Return the diagonal of C; raise ``ValueError`` unless it is all of C."""
        C = self.limit()
        diagonal = _diagonal(C)
        if C.ndim == 2 and not torch.equal(C, torch.diag(diagonal)):
            raise ValueError(
                "noise=Covariance(…) has correlated columns, but a prox acts on every column "
                "alone; pass a diagonal, or leave prox out"
            )
        return diagonal

    def limit(self) -> Tensor:
        """Return C."""
        if not isinstance(self.matrix, Tensor):
            raise ValueError(
                "state evolution needs the covariance itself, but noise=Covariance(…) has a "
                "function; pass its matrix, or the diagonal"
            )
        return self.matrix


@dataclass(frozen=True)
class White(Noise):
    r"""Rows with i.i.d. noise of another variance than 1/d, for example with standardised columns.

    Pre-activations, outputs and rates are then those of PyTorch: with ``reduction="mean"``, ``lr``
    and the weights of a model mean the same as in ``torch.optim.SGD`` on the same rows.

    Args:
        variance: v, of the noise in each entry of X; C = d v I.

    Example:
        >>> White(1.0).coloured(torch.ones(1, 4))
        tensor([[4., 4., 4., 4.]])
    """

    variance: float = 1.0
    lifts = frozenset({"white noise"})

    def __post_init__(self) -> None:
        """Check the variance."""
        if real_number("variance", self.variance) <= 0:
            raise ValueError(f"variance={self.variance!r} must be positive")

    def check(self, rows: Rows) -> None:
        """Warn where rows are far shorter or longer than noise of this variance."""
        norm = float(rows.mean(rows.squares)) ** 0.5
        expected = (self.variance * rows.d) ** 0.5
        if not 0.5 <= norm / expected <= 2:
            warnings.warn(
                f"the rows of X have root-mean-square norm {norm:.3g}, but noise of variance "
                f"{self.variance:g} in {rows.d} columns has norm {expected:.3g}: pass "
                f"White({norm**2 / rows.d:.3g}), or the train error will not track the test error",
                ScalingWarning,
                stacklevel=outside(),
            )

    def coloured(self, theta: Tensor) -> Tensor:
        """Return d v θ."""
        return theta * (self.variance * theta.shape[1])

    def level(self, rows: Rows) -> float:
        """Return d v."""
        return self.variance * rows.d

    def spectrum(self, rows: Rows) -> Tensor:
        """Return d v."""
        return rows.like.new_full((1,), self.level(rows))

    def limit(self) -> Tensor:
        """Raise ``ValueError``: mixtures have noise of variance 1/d."""
        raise ValueError(
            f"noise={self!r}: state evolution describes rows with noise of variance 1/d; divide "
            "the rows by √(d v) and leave noise out"
        )


@dataclass(frozen=True, eq=False)
class RowNorms(Noise):
    r"""Rows whose noise is white with unequal variances: covariance w_i I/d.

    Without ``squares``, w_i = ‖x_i‖²; ``noise="row norms"`` is the same in a word. It is right for
    noise of equal variance, too. A row with mean μ_i/d has ‖x_i‖² ≈ 1 + ‖μ_i‖²/d². The second term
    is of order 1/d, and the paper leaves it out. But the row's own term in x_iᵀ Σ_j x_j ĥ_j is all
    of ‖x_i‖² ĥ_i: a row also moves θ along its own mean. Without it, the train error is too low by
    order 1/n, the more the stronger the signal (docs/theory/errata.md).

    Args:
        squares: w_i, the squared norm of the noise in each row, shape (n,); by default that of the
            row itself.

    Example:
        >>> X, y = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [5.0, 2.0], [5.0, -2.0]]), [0, 0, 1, 1]
        >>> RowNorms.within_classes(X, torch.tensor(y)).squares
        tensor([2., 2., 8., 8.])
    """

    squares: Tensor | None = None
    lifts = frozenset({"white noise", "equal norms"})

    def __post_init__(self) -> None:
        """Check the norms."""
        if self.squares is None:
            return
        check_finite("squares", self.squares)
        if self.squares.ndim != 1 or bool((self.squares < 0).any()):
            raise ValueError(
                f"squares has shape {tuple(self.squares.shape)} and starts at "
                f"{float(self.squares.min()):g}; it must be one number of at least 0 per row"
            )

    @classmethod
    def within_classes(cls, X: Tensor, y: Tensor) -> RowNorms:
        r"""Measure the norms, w_i = ‖x_i − mean of its class‖² n_c/(n_c − 1).

        Args:
            X: Features, shape (n, d).
            y: Labels, shape (n,); rows of equal label share a mean.

        Returns:
            The model, in the dtype of X. The last factor corrects for the row's own share in the
            mean.
        """
        features, squares = as_floats("X", X), torch.empty_like(X[:, 0])
        for label in torch.unique(y):
            own = y == label
            count = int(own.sum())
            if count < 2:
                raise ValueError(
                    f"label {label.item():g} has a single row, which tells nothing about its noise;"
                    " pass squares for labels that are not classes"
                )
            centred = features[own] - features[own].mean(0)
            squares[own] = centred.square().sum(1) * (count / (count - 1))
        return cls(squares)

    def check(self, rows: Rows) -> None:
        """Raise ``ValueError`` when there is not one norm per row."""
        if self.squares is None:
            return
        if len(self.squares) != rows.here:
            raise ValueError(f"squares has {len(self.squares)} entries but X has {rows.here} rows")
        _check_like("squares", self.squares, rows)

    def shares_of(self, rows: Rows) -> Tensor:
        """A row counts by w_i."""
        if self.squares is None:
            return rows.squares.to(rows.like)
        return self.squares if rows.index is None else self.squares[rows.index]

    def limit(self) -> Tensor:
        """Raise ``ValueError``: there is no state evolution for rows of unequal strength."""
        raise ValueError(
            "noise=RowNorms(…): state evolution has no limit for rows of unequal strength; "
            "leave noise out, or use Covariance"
        )


class AnyCovariance(Noise):
    """Rows whose noise has any covariance, which is not known; ``noise="any covariance"``.

    For the estimate of gradient descent, which then measures how θ responds on the rows themselves
    (:mod:`decoupled_descent.descent.probes`).
    """

    lifts = frozenset({"white noise"})
    measured = True

    def check(self, rows: Rows) -> None:
        """Any rows will do."""

    def spread(self, theta: Tensor, rows: Rows) -> Tensor:
        """Measured: the standard deviations of h."""
        return rows.forward(theta).std(1)

    def limit(self) -> Tensor:
        """Raise ``ValueError``: state evolution needs the covariance."""
        raise ValueError(
            "noise='any covariance': state evolution needs the covariance itself; leave noise out "
            "and pass covariance"
        )


#: Models that need nothing but a name.
NAMED: dict[str, type[Noise]] = {"row norms": RowNorms, "any covariance": AnyCovariance}


def as_noise(noise: Noise | str | None) -> Noise:
    """Return the model for what an algorithm was given; the paper's for None.

    Example:
        >>> type(as_noise("row norms")).__name__
        'RowNorms'
    """
    if noise is None:
        return Noise()
    if isinstance(noise, str) and noise in NAMED:
        return NAMED[noise]()
    if not isinstance(noise, Noise):
        raise ValueError(
            f"noise={noise!r} must be {', '.join(map(repr, NAMED))} or a model of "
            "decoupled_descent.noise, such as Covariance(C)"
        )
    return noise


def _diagonal(matrix: Tensor) -> Tensor:
    return matrix if matrix.ndim == 1 else matrix.diagonal()


def _check_like(name: str, values: Tensor, rows: Rows) -> None:
    """Raise ``ValueError`` when values have another dtype or device than the rows."""
    if values.dtype != rows.like.dtype or values.device != rows.like.device:
        raise ValueError(
            f"{name} is {values.dtype} on {values.device} but X is {rows.like.dtype} on "
            f"{rows.like.device}; pass {name}.to(X)"
        )
