"""Cluster state, compiled snapshots, the one evaluator, names, flows and the one byte door.

Time is an argument everywhere; nothing here reads a clock, a file or a socket.
"""
