"""Leave-one-out at the minimum of a ridge-penalised loss: the problem, its minimum, rows left out.

:mod:`~decoupled_descent.leave_one_out.problem` defines what is minimised,
:mod:`~decoupled_descent.leave_one_out.minimise` reaches the minimum by Newton steps,
:mod:`~decoupled_descent.leave_one_out.leave_out` leaves rows out of it. The influence of rows on
outputs is a linear operator (:mod:`~decoupled_descent.leave_one_out.influence`), with one class per
structure: ridge, kernel, softmax in the dual and in the primal.
:class:`~decoupled_descent.DecoupledNewton` is the algorithm that does all of it.
"""

from decoupled_descent.leave_one_out.newton import DecoupledNewton

__all__ = ["DecoupledNewton"]
