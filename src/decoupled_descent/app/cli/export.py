"""``decoupled export``: a model for use without PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from decoupled_descent.app.cli.options import Json, argument, must_exist, output_folder

Model = Annotated[Path, argument(metavar="MODEL", help="Folder that train wrote.")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Folder for predictor.py and model.npz.")]


def export(model: Model, out: Out = Path("exported"), as_json: Json = False) -> None:
    """Write a model as NumPy code and a file of numbers.

    The code is that of `predict`; the files need neither PyTorch nor pandas.
    """
    must_exist(model)
    output_folder(out)
    from decoupled_descent.app import export as files_of
    from decoupled_descent.app.cli.output import console, echo_json

    files = files_of.export(model, out)
    if as_json:
        echo_json({"files": files})
        return
    console().print(f"Saved: {', '.join(map(str, files))}", soft_wrap=True)
