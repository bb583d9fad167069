"""Commands for networks that people bring."""
