"""The section on the error over time."""

from types import SimpleNamespace

from decoupled_descent.app.report.data import ErrorsOverTime
from decoupled_descent.app.report.over_time import over_time, sentence
from decoupled_descent.tables.estimators.forward import Piece

PIECES = tuple(Piece(f"200{k}", f"200{k + 1}", 10 * k, 10, 4.0 + k, 1.0, 0.5) for k in range(3))
ESTIMATE = SimpleNamespace(
    pieces=PIECES,
    evaluation=SimpleNamespace(error_name="log loss"),
    error=SimpleNamespace(value=9.0, interval=(4.0, 16.0)),
    rises=True,
)


def test_roots_of_squared_errors():
    times = ErrorsOverTime.of("year", ESTIMATE, roots=True)
    assert (times.error, times.interval, times.pieces[0].error) == (3.0, (2.0, 4.0), 2.0)
    assert "expect a typical error (RMSE) of 3" in sentence(times)
    assert "The error rises with time" in sentence(times)


def test_the_section():
    times = ErrorsOverTime.of("year", ESTIMATE, roots=False)
    content = over_time(SimpleNamespace(analyses=SimpleNamespace(over_time=times)))
    assert len(content["table"].rows) == 3
    assert content["table"].rows[0][0] == "2000 to 2001"
    assert over_time(SimpleNamespace(analyses=SimpleNamespace(over_time=None))) is None
