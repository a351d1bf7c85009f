"""One module a command: build objects, call, render. The only place that prints or exits."""
