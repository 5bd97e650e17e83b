"""The HTTP contract: `docs/protocol.md` in code. Knows no paths and no files."""
