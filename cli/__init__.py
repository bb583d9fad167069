"""The command line: one file for each command, which declares the arguments of the command and runs it.

The docstring of a module is the help of its command. `arguments(parser)` declares the arguments. `main(parsed)` runs
the command and returns the exit status: 0 done, 1 a check failed, 3 not comparable, 4 incomplete. What imports torch is
imported inside `main`, so that `--help` is quick.
"""
