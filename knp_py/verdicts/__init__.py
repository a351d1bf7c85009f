"""The verdict record: made from decisions, read back from logs, ours and others'."""
