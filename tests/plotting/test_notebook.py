"""What a notebook asks of a figure."""

import struct

import decoupled_descent as dd


def test_figures_of_runs_are_pictures_in_notebooks():
    X, y = dd.mixtures.xor(10, 4.0).sample(30, seed=0)
    objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
    figure = dd.fit(X, y, objective, dd.DecoupledDescent(0.05), 5).plot()
    picture = figure._repr_png_()
    assert picture.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", picture[16:24])
    assert (width, height) == (690, 510)  # 4.6 × 3.4 inches
