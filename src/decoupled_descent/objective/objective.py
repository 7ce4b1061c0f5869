r"""The objective Ψ(h, y, a) = loss(head_a(h), y): a description of what is minimised."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from decoupled_descent.checks import outside
from decoupled_descent.objective import kinks, structured
from decoupled_descent.objective.autodiff import differentiate
from decoupled_descent.objective.bound import BoundObjective, require_shape
from decoupled_descent.objective.derivatives import (
    Ask,
    Direction,
    Engine,
    HeadDirection,
    Parameters,
    RowDerivatives,
    Timed,
    depends_on_time,
)
from decoupled_descent.objective.labels import check_labels, check_rows_one_by_one, varied_rows
from decoupled_descent.objective.losses import Loss, RowLoss, get_loss
from decoupled_descent.objective.models import Split, split
from decoupled_descent.objective.pure_head import PureHead

CURVATURES = ("auto", "structured", "autodiff", "smoothed")


def require_objective(given: Any) -> None:
    """Raise ``ValueError`` for a module in place of an objective."""
    if isinstance(given, nn.Module):
        raise ValueError(
            f"objective is the module {type(given).__name__}; pass "
            "Objective.of_model(model, loss), or train it by fit(X, y, model, loss=…)"
        )


class Objective:
    r"""What is minimised: Ψ(h, y, a) = loss(head_a(h), y), row by row (Definition "lossGrad").

    An objective never changes. :meth:`bind` looks at the labels and decides once how derivatives
    are computed. Training and theory work with the object that it returns.

    Args:
        head: 𝓜_a, any ``nn.Module`` from (n, L) to (n,) or (n, K) that treats rows independently.
            Parameters with ``requires_grad=False`` stay as they are. The objective keeps a copy:
            it never changes the module, and later changes to the module do not reach it.
        loss: ``"squared"``, ``"absolute"``, ``"logistic"``, ``"cross_entropy"`` or a callable
            ``loss(outputs, y)`` that returns one value per row.
        width: L; read off the head where possible.
        curvature: How J̄ is found: ``"structured"`` by closed forms, ``"autodiff"`` by reverse
            passes, ``"smoothed"`` by differences with large steps, for kinks, or ``"auto"``: closed
            forms where the head and the loss have them, and smoothed where there are kinks.

    Example:
        >>> import torch, decoupled_descent as dd
        >>> objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
        >>> h, y = torch.ones(4, 2), torch.ones(4)
        >>> bound = objective.bind(y, width=2, like=h)
        >>> rows = bound.derivatives(h, y)
        >>> bound.curvature, rows.direction.shape, rows.jacobian.shape, list(rows.head)
        ('structured', torch.Size([4, 2]), torch.Size([2, 2]), ['a'])
    """

    def __init__(
        self,
        head: nn.Module,
        loss: str | RowLoss | Loss,
        *,
        width: int | None = None,
        curvature: str = "auto",
    ) -> None:
        self.split: Split | None = None  # the model that the head comes from, if there is one
        self.source: nn.Module | None = None  # the same, also where it cannot be split
        self._unsplit = ""  # why not
        if not isinstance(head, nn.Module):
            raise ValueError(
                f"head={head!r} must be a torch.nn.Module; see decoupled_descent.heads for ready "
                "ones, or wrap a function with decoupled_descent.heads.GeneralisedLinear"
            )
        if curvature not in CURVATURES:
            raise ValueError(f"curvature={curvature!r} must be one of {', '.join(CURVATURES)}")
        self.pure_head = PureHead(head)
        self.loss = get_loss(loss)
        self.curvature = curvature
        #: L as the user or the head declares it; None where it can only be guessed.
        self.declared_width: int | None = getattr(head, "width", None) if width is None else width
        linear = (m.in_features for m in head.modules() if isinstance(m, nn.Linear))
        #: L, guessed from the first linear layer of a head that does not declare it.
        self.width: int | None = self.declared_width or next(linear, None)
        closed = None if curvature == "autodiff" else structured.engine(self.head, self.loss)
        self.closed_form = closed is not None
        #: Evaluates several heads at once; None unless the head is a chain.
        self.several = closed.several if isinstance(closed, structured.Chain) else None
        self.engine: Engine = closed or partial(differentiate, self.losses)
        if curvature == "structured" and not self.closed_form:
            raise ValueError(
                f"curvature='structured' has no closed form for head {type(head).__name__} with "
                f"loss {self.loss.name!r}; use curvature='auto'"
            )

    @classmethod
    def of_model(
        cls, model: nn.Module, loss: str | RowLoss, *, curvature: str = "auto"
    ) -> Objective:
        r"""Take a module of x; training starts from its weights.

        :class:`DecoupledGaussNewton` trains all of it. For other algorithms its first layer must be
        ``nn.Linear``, whose weights are θ. All that follows is the head, the first layer's bias
        included. ``run.to_module()`` returns the model, trained.

        Args:
            model: Any ``nn.Module`` of x. For algorithms that train θ and a head, it does nothing
                to x before the first layer, except for ``nn.Flatten``. It is copied, not changed.
            loss: As for an objective.
            curvature: As for an objective.

        Returns:
            The objective.

        Example:
            >>> import torch, decoupled_descent as dd
            >>> X, y = dd.mixtures.xor(dimension=50, snr=4.0).sample(100, seed=0)
            >>> model = nn.Sequential(nn.Linear(50, 4), nn.Tanh(), nn.Linear(4, 1))
            >>> objective = dd.Objective.of_model(model, "logistic")
            >>> run = dd.fit(X, y, objective, dd.DecoupledDescent(0.1), steps=20)
            >>> run.to_module()(X).shape
            torch.Size([100, 1])
        """
        if not isinstance(model, nn.Module):
            raise ValueError(f"model={model!r} must be a torch.nn.Module")
        try:
            parts = split(model)
        except ValueError as error:
            objective = cls(model, loss, curvature=curvature)
            objective.source, objective._unsplit = objective.head, str(error)
            return objective
        objective = cls(parts.head, loss, width=len(parts.theta), curvature=curvature)
        objective.split, objective.source = parts, parts.model
        return objective

    def require_head(self) -> None:
        """Raise ``ValueError`` for a whole model that cannot be split into θ and a head."""
        if self._unsplit:
            raise ValueError(self._unsplit)

    @property
    def theta(self) -> Tensor | None:
        """θ of the model, where training starts, shape (L, d); None for a head alone."""
        return None if self.split is None else self.split.theta

    def model(self, theta: Tensor, parameters: Parameters) -> nn.Module:
        """Return θ and the head as one module of x: the model itself, if there was one."""
        if self.split is not None:
            return self.split.joined(theta, parameters)
        first = nn.Linear(theta.shape[1], len(theta), bias=False, device="meta")
        first.weight = nn.Parameter(theta.detach().clone())
        return nn.Sequential(first, self.module(parameters).to(theta))

    @property
    def head(self) -> nn.Module:
        """The objective's own copy of the head, as it was given."""
        return self.pure_head.module

    def __repr__(self) -> str:
        """Name the head, the loss and the way derivatives are taken."""
        return f"Objective({type(self.head).__name__}, {self.loss.name!r}, {self.curvature})"

    def parameters(self, like: Tensor | None = None) -> Parameters:
        """Return copies of the head's trainable parameters a by name, in ``like``'s dtype."""
        return self.pure_head.parameters(like)

    def module(self, parameters: Parameters) -> nn.Module:
        """Return a copy of the head that has the given parameters, in their dtype and device."""
        return self.pure_head.with_parameters(parameters)

    def outputs(self, h: Tensor, parameters: Parameters | None = None) -> Tensor:
        """Evaluate 𝓜_a(h), shape (n,) or (n, K), for h of shape (n, L) and a or the head's own."""
        outputs = self.pure_head(h, self.parameters(h) if parameters is None else parameters)
        return outputs.squeeze(1) if outputs.ndim == 2 and outputs.shape[1] == 1 else outputs

    def losses(self, h: Tensor, y: Tensor, parameters: Parameters | None = None) -> Tensor:
        """Evaluate Ψ(h_i, y_i, a) row by row, shape (n,), for a or the head's own parameters."""
        parameters = self.parameters(h) if parameters is None else parameters
        return self.loss.of(self.pure_head(h, parameters), y)

    def bind(
        self,
        y: Tensor,
        width: int,
        like: Tensor,
        *,
        g: Direction | None = None,
        f: HeadDirection | None = None,
        jacobian: bool = True,
    ) -> BoundObjective:
        r"""Check that everything fits, look for kinks, and choose how derivatives are taken.

        Args:
            y: All labels.
            width: L, from θ.
            like: Gives the dtype and the device.
            g: Replaces ∇_hΨ (the general family of the paper); with a fourth argument it is called
                with the number of the step, see :meth:`BoundObjective.at`.
            f: Replaces ∇_aΨ.
            jacobian: Whether J̄ is needed. Without it kinks do no harm, and there is no warning.

        Returns:
            The objective with its derivatives; frozen. A :class:`KinkWarning` is issued when there
            are kinks and ``curvature="smoothed"`` was not asked for.
        """
        self.check(y, width, like)
        if g is not None and depends_on_time(g):
            g = Timed(g)
        probed = g is None or self._check_direction(g, y, width, like)
        curvature = self.curvature
        if curvature == "auto":
            kinked = probed and self.has_kinks(y, width, g)
            smooth = "structured" if self.closed_form and g is None else "autodiff"
            curvature = "smoothed" if kinked else smooth
            if kinked and jacobian:
                self._warn_of_kinks(g)
        return BoundObjective(self, width, curvature, g, f)

    def derivatives(
        self,
        h: Tensor,
        y: Tensor,
        parameters: Parameters | None = None,
        *,
        g: Direction | None = None,
        f: HeadDirection | None = None,
        **options: Any,
    ) -> RowDerivatives:
        """Bind to these labels and call :meth:`BoundObjective.derivatives`, once.

        To differentiate more than once, call :meth:`bind` and keep what it returns.
        """
        return self.bind(y, h.shape[1], h, g=g, f=f).derivatives(h, y, parameters, **options)

    def check(self, y: Tensor, width: int, like: Tensor) -> None:
        """Raise ``ValueError`` if head, loss, labels and width do not fit together."""
        self.require_head()
        if self.declared_width is not None and self.declared_width != width:
            raise ValueError(
                f"the head takes L = {self.declared_width} pre-activations, but theta has {width} "
                "rows; theta is (L, d), laid out as nn.Linear.weight"
            )
        outputs = self.pure_head.check(_probe(min(len(y), 8), width, like))
        if self.loss.builtin:
            check_labels(self.loss, y, 1 if outputs.ndim == 1 else outputs.shape[1])
        else:
            check_rows_one_by_one(self.loss, outputs, y)

    def has_kinks(self, y: Tensor, width: int, g: Direction | None) -> bool:
        """Whether g, by default ∇_hΨ, jumps somewhere, or may do so after training."""
        if g is not None:
            return kinks.values_jump(g, self.parameters, width, y)
        if kinks.has_kinked_module(self.head) or not self.loss.smooth:
            return True
        if self.closed_form:
            return False
        if kinks.values_jump(self.slopes, self.parameters, width, y):
            return True
        if self.loss.builtin:
            return False
        return kinks.loss_jumps(self.loss, self.pure_head, self.parameters, width, y)

    def _warn_of_kinks(self, g: Direction | None) -> None:
        subject = f"head {type(self.head).__name__} with loss {self.loss.name!r}"
        warnings.warn(
            f"{subject if g is None else 'g'} has kinks. Exact second derivatives miss the jumps "
            "of the first, so that differences with large steps are used instead. Pass "
            "Objective(…, curvature='smoothed') to accept this without a warning, or "
            "curvature='autodiff' for exact second derivatives",
            kinks.KinkWarning,
            stacklevel=outside(),
        )

    def _check_direction(self, g: Direction, y: Tensor, width: int, like: Tensor) -> bool:
        """Raise ``ValueError`` when the value of g for a row depends on the other rows.

        Returns whether g could be probed. A g with one weight per training row, for example,
        cannot be called with other rows.
        """
        rows = varied_rows(y, 8)
        h, labels, parameters = _probe(len(rows), width, like), y[rows], self.parameters(like)
        try:
            together = g(h.clone(), labels, parameters).detach()
            pairs = [g(h[[k, k]], labels[[k, k]], parameters).detach()[:1] for k in range(len(h))]
            alone = torch.cat(pairs)
        except Exception:  # training reports failures that are not due to the number of rows
            return False
        require_shape(together, h)
        size = 1e-5 * float(together.abs().max())
        if not torch.allclose(together, alone, rtol=1e-3, atol=size, equal_nan=True):
            raise ValueError(
                "g mixes rows or is random: its value for a row depends on the other rows. "
                "g(h, y, a) must treat rows one by one, without means over rows"
            )
        return True

    def slopes(self, h: Tensor, y: Tensor, parameters: Parameters) -> Tensor:
        """Return ∇_hΨ, shape (n, L)."""
        return self.engine(h, y, parameters, Ask(jacobian=False, head=False)).direction


def _probe(count: int, width: int, like: Tensor) -> Tensor:
    """A few rows of pre-activations between −1 and 1."""
    probe = torch.linspace(-1.0, 1.0, count * width, dtype=like.dtype, device=like.device)
    return probe.reshape(count, width)
