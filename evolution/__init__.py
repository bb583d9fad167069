"""Discovers proxies by genetic programming: a language of programs, the data they read, an engine, and studies."""
