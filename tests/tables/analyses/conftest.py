"""The command in this process."""

from tests.app.cli.conftest import run as run
