"""Execute the notebooks and store their outputs in them.

    python analysis/notebooks/run.py [NAMES ...]

With the environment variable `BAYES_CMAB_SMALL=1` they take small settings, as the tests do; what
is committed was run without it.
"""

import os
import time
from pathlib import Path
from typing import Annotated

import nbformat
import typer
from nbclient import NotebookClient

from bayes_cmab.workers import WORKER_ENVIRONMENT

FOLDER = Path(__file__).parent
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
QUIET = {
    **WORKER_ENVIRONMENT,
    "TF_CPP_MIN_LOG_LEVEL": "3",  # or XLA says how slowly it compiles on a busy machine
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # or the kernel's debugger warns of frozen modules
    "PYTHONWARNINGS": "ignore:IProgress not found",  # tqdm's, of a package that is not needed
}
"""Environment of the kernels: one thread, which is faster for small matrices, and no noise."""


def names() -> list[str]:
    """Return the names of the notebooks."""
    return sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def execute(name: str) -> nbformat.NotebookNode:
    """Return a notebook with fresh outputs, without what differs from run to run by itself.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        If a cell fails.
    """
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    client = NotebookClient(
        notebook,
        timeout=1800,
        kernel_name=KERNEL["name"],
        record_timing=False,
        extra_arguments=["--IPKernelApp.log_level=40"],
        resources={"metadata": {"path": str(FOLDER)}},
    )
    client.execute(env=os.environ | QUIET)
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    )
    return notebook


def main(
    chosen: Annotated[list[str] | None, typer.Argument(help="Names; by default all.")] = None,
) -> None:
    """Execute notebooks in place."""
    for name in chosen or names():
        begin = time.monotonic()
        nbformat.write(execute(name), FOLDER / f"{name}.ipynb")
        typer.echo(f"{name}: {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    typer.run(main)
