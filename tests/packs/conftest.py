"""The fixtures of all tests of packs."""

from pack_server import direct, project, server

__all__ = ["direct", "project", "server"]
