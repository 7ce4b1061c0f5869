r"""State evolution: what training does in the limit n, d → ∞ (Definition "ddState")."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from decoupled_descent.checks import whole_number
from decoupled_descent.descent.common import Descent, check_algorithm
from decoupled_descent.objective import Objective, Parameters
from decoupled_descent.theory.averages import Model
from decoupled_descent.theory.batches import batch_masks, batch_sizes
from decoupled_descent.theory.engines import engine_makers
from decoupled_descent.theory.evolution import Evolution
from decoupled_descent.theory.laws import (
    MixtureLaw,
    as_limit,
    check_limits,
    check_theta,
    head_parameters,
    on_cpu,
)
from decoupled_descent.theory.orders import one_time_nodes
from decoupled_descent.theory.populations import Nodes, independent_seeds
from decoupled_descent.theory.randomisations import follow
from decoupled_descent.theory.recursion import Trajectory, rule_coefficients
from decoupled_descent.theory.reuse import ReuseTrajectory, coordinates
from decoupled_descent.theory.ridge import (
    CovarianceGeometry,
    StartingOverlaps,
    agreed_covariance,
    ridge_step,
)

METHODS = ("auto", "quadrature", "paths")


class StateEvolution:
    r"""Predicts training on a mixture in the limit n, d → ∞ with n/d → ratio.

    For decoupled descent on rows with noise of covariance I/d (Definition "ddState"):

    .. math::
       \Sigma[r,s] &= \textstyle\sum_j p_j E[g(G^r + m_{j,r}, Y_j, \bar a_r)\,
                       g(G^s + m_{j,s}, Y_j, \bar a_s)^\top], \qquad
       l_{j,t} = p_j E[g(G^t + m_{j,t}, Y_j, \bar a_t)] \\
       \Xi[r+1,s] &= \eta_0\Xi[r,s] - \eta_1 V[r,s], \qquad
       V[r,s] = \alpha\Sigma[r,s] + \alpha^2\textstyle\sum_{jk}\chi_{jk} l_{j,r} l_{k,s}^\top \\
       \Omega[r+1,s+1] &= \eta_0^2\Omega[r,s] - \eta_0\eta_1(\Xi[r,s] + \Xi[s,r]^\top)
                       + \eta_1^2 V[r,s] \\
       m_{j,t+1} &= \eta_0 m_{j,t} - \eta_1\alpha\textstyle\sum_k\chi_{jk} l_{k,t}, \qquad
       \bar a_{t+1} = \gamma_0\bar a_t - \gamma_1\textstyle\sum_j p_j E[f(G^t+m_{j,t},Y_j,\bar a_t)]

    In general rows have noise of covariance C/d, and V[r,s] = aΣ[r,s] + l_rᵀHl_s and Kl_t replace
    V and αχl_t, with K, a and H of :func:`~decoupled_descent.theory.ridge.ridge_step`; Ω
    and Ξ are then the overlaps θᵀCθ/d and θᵀCθ̃/d. Decoupled descent is the case λ = ∞; orthogonal
    decoupled descent has any λ, and g − hJ̄ᵀ in place of g. Any linear update rule is covered, and
    mini-batches, which multiply Σ[r,s] by E[s_r s_s] of their row factors; iterates are then those
    at the beginning of each pass.

    Args:
        mixture: A :class:`~decoupled_descent.GaussianMixture`, its means in the coordinates of C;
            or a ``MixtureLimit``, for means in general position relative to the eigenvectors of C.
        objective: Ψ.
        algorithm: :class:`~decoupled_descent.DecoupledDescent`,
            :class:`~decoupled_descent.OrthogonalDecoupledDescent`, or
            :class:`~decoupled_descent.GradientDescent`, for which train and test error have
            different limits. With ``reduction="mean"`` a step depends on n, taken as ratio ·
            mixture.dimension.
        ratio: α = n/d.
        covariance: C, shape (d, d), or its diagonal, shape (d,). By default the one that the
            algorithm corrects for (``noise=Covariance(C)`` of decoupled descent), or the identity.
            With a ``MixtureLimit``, any number of eigenvalues that represent their distribution.
        method: ``"quadrature"`` (L = 1, no kinks), ``"paths"`` (anything, sampled), or ``"auto"``.
        order: Gauss–Hermite nodes per coordinate, where there are no kinks.
        paths: M, sampled paths per randomisation, a power of two.
        randomisations: Independent repetitions, which give the standard errors; under quadrature
            two neighbouring orders do.
        seed: Of the sampling.

    Example:
        >>> import torch, decoupled_descent as dd
        >>> objective = dd.Objective(dd.heads.Linear(), "squared")
        >>> algorithm = dd.DecoupledDescent(lr=0.05, damping=0.95)
        >>> theory = dd.StateEvolution(dd.mixtures.signalless(10), objective, algorithm)
        >>> theory.run(steps=3).test_error
        tensor([0.5000, 0.4525, 0.4118], dtype=torch.float64)

        Rows of another covariance, with the algorithm that needs no correction for it:

        >>> mixture = dd.mixtures.flipped_classes(100, snr=1.5, labels=(0.0, 1.0))
        >>> objective = dd.Objective(dd.heads.Linear(), "logistic")
        >>> algorithm = dd.OrthogonalDecoupledDescent(0.1, 0.95, ridge=1.0)
        >>> spectrum = torch.linspace(0.2, 1.8, 100)
        >>> dd.StateEvolution(mixture, objective, algorithm, 2.0, spectrum).run(steps=3).test_error
        tensor([0.8061, 0.7585, 0.7169], dtype=torch.float64)
    """

    @on_cpu
    def __init__(
        self,
        mixture: MixtureLaw,
        objective: Objective,
        algorithm: Descent,
        ratio: float = 1.0,
        covariance: Tensor | None = None,
        *,
        method: str = "auto",
        order: int | None = None,
        paths: int = 8192,
        randomisations: int = 8,
        seed: int = 0,
    ) -> None:
        if not 0 < ratio < math.inf:
            raise ValueError(f"ratio={ratio!r} must be a positive number, n/d")
        if method not in METHODS:
            raise ValueError(f"method={method!r} must be one of {', '.join(METHODS)}")
        check_algorithm(algorithm)
        self.step = algorithm.limit()
        self._models: dict[int, Model] = {}
        self.mixture, self.objective, self.algorithm = mixture, objective, algorithm
        self.ratio, self.method, self.order = float(ratio), method, order
        self.randomisations = whole_number("randomisations", randomisations, 2)
        self.paths, self.seed = paths, seed
        self.covariance = agreed_covariance(self.step, covariance)
        self.geometry = CovarianceGeometry.of(mixture, self.covariance)
        self.ridge_step = ridge_step(
            self.geometry.spectrum,
            self.geometry.project,
            mixture.weights,
            self.ratio,
            self.step.ridge,
        )

    @on_cpu
    def run(
        self,
        steps: int,
        theta: Tensor | None = None,
        *,
        alignment: Tensor | None = None,
        overlap: Tensor | None = None,
        head: nn.Module | Mapping[str, Tensor] | None = None,
        rows: int | None = None,
        progress: bool | None = None,
    ) -> Evolution:
        r"""Follow T iterates, the first being the starting point.

        Args:
            steps: T.
            theta: θ_1, shape (L, d), whose own overlaps are taken for the limits.
            alignment: m_{j,1}, shape (J, L), instead of θ_1; zero when only ``overlap`` is given.
            overlap: Ω[1,1], shape (L, L). Without any of these, θ_1 has independent N(0, 1)
                entries: alignment zero, overlap tr C/d.
            head: ā_1, a module or its parameters by name; the objective's own by default.
            rows: n. Adds the fluctuations along the means that runs of n rows have, drawn
                independently in every randomisation. They are of order n^{−1/2} and determine when
                a start without signal leaves a saddle. For gradient descent only; infinite by
                default.
            progress: Whether to draw a progress bar; by default, only on a terminal.

        Returns:
            The evolution. Ctrl-C returns the randomisations completed, or the steps of the first
            one. A test error that is no longer finite ends it with a
            :class:`~decoupled_descent.DivergenceWarning`.
        """
        steps = whole_number("steps", steps)
        start = self.start(theta, alignment, overlap)
        parameters = head_parameters(self.objective, head)
        scale = self.algorithm.scale(self.sample_size())
        sizes = self.batch_sizes()
        updates = (steps - 1) * len(sizes) + 1
        reused: list[Callable[[], ReuseTrajectory]] = []
        makers: Sequence[Callable[[], Trajectory | ReuseTrajectory]] = reused
        if rows is not None and (self.step.corrected or self.covariance is not None):
            raise ValueError(
                f"rows={rows!r}: fluctuations are known for GradientDescent without covariance "
                "only; leave rows out, or see theory.finite_size"
            )
        if self.step.entrywise and any(
            given is not None for given in (rows, alignment, overlap, self.covariance)
        ):
            raise ValueError(
                "prox acts on the entries of theta: pass theta instead of alignment and overlap, "
                "and leave rows and covariance out"
            )
        if self.step.corrected:
            makers = self._corrected(updates, start, parameters, scale, sizes)
        else:
            size = None if rows is None else whole_number("rows", rows)
            seeds = self._path_seeds()
            if self.step.entrywise:
                firsts = [self._entries(start, theta, seed) for seed in seeds]
            else:
                firsts = [coordinates(self.geometry, start, theta)] * len(seeds)
            reused += [
                partial(ReuseTrajectory, self, updates, first, parameters, scale, seed, size)
                for first, seed in zip(firsts, seeds, strict=True)
            ]
        trajectories = (make() for make in makers)
        quantities = follow(trajectories, len(makers), updates, progress, every=len(sizes))
        return Evolution(theory=self, makers=reused, **quantities)

    def _corrected(
        self,
        updates: int,
        start: StartingOverlaps,
        head: Parameters,
        scale: float,
        sizes: list[int],
    ) -> list[Callable[[], Trajectory]]:
        """Return makers of trajectories with corrections, one per randomisation."""
        width = len(start.overlap)
        coefficients = rule_coefficients(self.algorithm.update, updates, width, scale)
        common = (self.ridge_step, self.algorithm, coefficients, start, head)
        engines, masks = engine_makers(self, updates, self.model(width)), None
        if len(sizes) > 1:
            masks = batch_masks(sizes, self.rows(), updates)
        return [partial(Trajectory, *common, make, masks) for make in engines]

    def _entries(
        self, start: StartingOverlaps, theta: Tensor | None, seed: int
    ) -> tuple[Tensor, Tensor]:
        """The entries of the means and of θ_1, which is drawn if it is not given."""
        if self.mixture.means is None:
            raise ValueError(
                "prox acts on the entries of theta, so that state evolution needs those of the "
                "means: pass a GaussianMixture instead of a MixtureLimit"
            )
        if theta is None:
            generator = torch.Generator().manual_seed(seed)
            shape = (len(start.overlap), self.mixture.means.shape[1])
            theta = torch.randn(shape, generator=generator, dtype=torch.float64)
        return check_theta(self.mixture, theta)

    def batch_sizes(self) -> list[int]:
        """Rows of the batches of a pass; a single one without mini-batches."""
        size = self.step.batch_size
        return [1] if size is None else batch_sizes(self.rows(), size)

    def _path_seeds(self) -> list[int]:
        """Seeds of the randomisations for methods that need sampled paths."""
        if self.method == "quadrature":
            raise ValueError(
                "method='quadrature' needs an algorithm with corrections: the pre-activations of "
                f"{type(self.algorithm).__name__} are not Gaussian; use method='paths'"
            )
        return independent_seeds(self.seed, self.randomisations)

    def start(
        self, theta: Tensor | None, alignment: Tensor | None = None, overlap: Tensor | None = None
    ) -> StartingOverlaps:
        """Turn θ_1, or limits given directly, into checked overlaps of the start."""
        tau, mixture = self.geometry.spectrum, self.mixture
        modes = len(mixture.weights)
        if theta is not None:
            if alignment is not None or overlap is not None:
                raise ValueError("give either theta or alignment and overlap, not both")
            start = self.geometry.start(theta, self.ridge_step.weights)
        elif overlap is not None:
            if self.covariance is not None:
                raise ValueError(
                    "with a covariance, alignment and overlap are not enough: the position of "
                    "theta relative to its eigenvectors matters; pass theta"
                )
            overlap = as_limit(overlap)
            zero = overlap.new_zeros(modes, overlap.shape[-1])
            alignment = zero if alignment is None else as_limit(alignment)
            start = StartingOverlaps(alignment, overlap, self.ridge_step.weights * alignment)
        elif alignment is not None:
            raise ValueError("alignment was given without overlap; give both, or theta")
        else:
            width = self.objective.width
            if width is None:
                raise ValueError("L cannot be read off the head; pass overlap of shape (L, L)")
            zero = tau.new_zeros(modes, width)
            start = StartingOverlaps(zero, tau.mean() * torch.eye(width, dtype=tau.dtype), zero)
        if self.covariance is None:
            check_limits(mixture, start.alignment, start.overlap)
        self.model(len(start.overlap))
        return start

    def model(self, width: int) -> Model:
        """Return Ψ and the step for L pre-activations, bound once."""
        if width not in self._models:
            trains_head = self.algorithm.trains_head
            model = Model(self.objective, self.mixture, width, self.step, trains_head)
            self._models[width] = model
        return self._models[width]

    def nodes(self, width: int, seed: int | None = None) -> Nodes:
        """Return nodes for averages at one time, for L pre-activations."""
        return one_time_nodes(self.model(width), self.order, self.seed if seed is None else seed)

    def sample_size(self) -> int:
        """Return n for the algorithm's reduction: ratio · d, or 1 if steps do not depend on n."""
        return self.rows() if self.algorithm.reduction == "mean" else 1

    def rows(self) -> int:
        """Return n = ratio · d, where the step depends on it."""
        dimension = self.mixture.dimension
        if dimension is None:
            raise ValueError(
                "reduction='mean' divides the step by n, and batch_size is a share of n, but this "
                "mixture has no dimension; use reduction='sum' with lr/n and no batches, or a "
                "GaussianMixture"
            )
        return max(1, round(self.ratio * dimension))
