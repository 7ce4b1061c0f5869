"""Leave-one-out at the minimum of a ridge-penalised loss: the problem, its minimum, rows left out.

:mod:`~decoupled_descent.leave_one_out.problem` says what is minimised,
:mod:`~decoupled_descent.leave_one_out.minimise` reaches the minimum by Newton steps,
:mod:`~decoupled_descent.leave_one_out.leave_out` leaves rows out of it, with the influence of rows
on outputs from :mod:`~decoupled_descent.leave_one_out.influence`.
:class:`~decoupled_descent.DecoupledNewton` is the algorithm that does all of it.
"""

from decoupled_descent.leave_one_out.newton import DecoupledNewton

__all__ = ["DecoupledNewton"]
