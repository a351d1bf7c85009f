"""What is wrong with a set of policies, found without any traffic."""
