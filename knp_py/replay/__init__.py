"""Use cases over iterables of packets and steps: captures, differences, scenarios."""
