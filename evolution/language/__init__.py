"""What a program is: primitives, trees, register machines, and how both are varied."""
