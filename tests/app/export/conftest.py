"""The command, and models that it trained."""

from tests.app.cli.conftest import refused, run, trained  # noqa: F401 # fixtures
