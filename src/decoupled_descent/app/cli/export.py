"""``decoupled export``: a model for use without PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from decoupled_descent.app.cli.options import Json, argument, must_exist, output_folder

Model = Annotated[Path, argument(metavar="MODEL", help="Folder that train wrote.")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Folder for predictor.py and model.npz.")]


def export(model: Model, out: Out = Path("exported"), as_json: Json = False) -> None:
    """Write a model as one file of NumPy code and one file of numbers.

    The files predict without PyTorch and pandas, and are checked against the model.
    """
    must_exist(model)
    output_folder(out)
    from decoupled_descent.app.cli.output import console, echo_json
    from decoupled_descent.app.export import numpy_files

    gap = numpy_files.export(model, out)
    files = [out / numpy_files.CODE, out / numpy_files.WEIGHTS]
    if as_json:
        echo_json({"files": files, "largest_difference": gap})
        return
    screen = console()
    screen.print(f"Saved: {files[0]}, {files[1]}", soft_wrap=True)
    screen.print(f"Largest relative difference from the model: {gap:.1e}", soft_wrap=True)
