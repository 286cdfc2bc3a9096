"""The learning curve of an exported model is rendered only in tests with the fixture `rendered`."""

from tests.report.conftest import rendered, savefig  # noqa: F401
