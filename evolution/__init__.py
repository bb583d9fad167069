"""Search for proxies by genetic programming: the language of programs, their data, the evolution, and searches."""
