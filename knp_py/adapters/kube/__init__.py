"""The Kubernetes API server: how it is reached, and how its objects are followed."""
