"""The curve of an exported model is rendered only for a test with the fixture `rendered`."""

from tests.report.conftest import rendered, savefig  # noqa: F401
