"""Bytes to values and back: captures, link layers, IP and transport, DNS. No I/O, no policy."""
