"""The node agent against a C program on the same queue, and against no agent at all."""
