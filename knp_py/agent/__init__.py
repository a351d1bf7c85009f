"""The node agent: the loop between the kernel's queue and the engine, over ports of its own."""
