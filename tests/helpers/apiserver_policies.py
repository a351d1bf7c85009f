"""Policies of a big cluster."""

from helpers.apiserver_pods import APPS
from helpers.apiserver_types import Doc


def network_policy(index: int, namespace: str) -> Doc:
    """Who may reach an application of a namespace."""
    app = APPS[index % len(APPS)]
    other = APPS[(index * 5 + 1) % len(APPS)]
    team = {"matchLabels": {"team": f"team-{index % 7}"}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": f"allow-{app}-{index}", "namespace": namespace},
        "spec": {
            "podSelector": {"matchLabels": {"app": app}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {
                    "from": [
                        {"podSelector": {"matchLabels": {"app": other}}},
                        {"namespaceSelector": team},
                    ],
                    "ports": [{"protocol": "TCP", "port": 8080}],
                }
            ],
            "egress": [
                {
                    "to": [{"ipBlock": {"cidr": f"203.0.{index % 256}.0/24"}}],
                    "ports": [{"protocol": "TCP", "port": 443}],
                },
                {"ports": [{"protocol": "UDP", "port": 53}]},
            ],
        },
    }


def cluster_policy(index: int, *, names: bool = True) -> Doc:
    """A ClusterNetworkPolicy; ``names``: with domain names (the experimental channel)."""
    to: list[Doc] = [{"networks": [f"198.18.{index % 256}.0/24"]}]
    if names:
        to.append({"domainNames": [f"*.service-{index}.example.com", "example.org"]})
    return {
        "apiVersion": "policy.networking.k8s.io/v1alpha2",
        "kind": "ClusterNetworkPolicy",
        "metadata": {"name": f"policy-{index:03d}"},
        "spec": {
            "tier": "Baseline" if index % 5 == 0 else "Admin",
            "priority": index % 1001,
            "subject": {"namespaces": {"matchLabels": {"team": f"team-{index % 7}"}}},
            "ingress": [
                {
                    "name": "monitoring",
                    "action": "Accept",
                    "from": [{"namespaces": {"matchLabels": {"team": "team-0"}}}],
                    "protocols": [{"tcp": {"destinationPort": {"number": 9090}}}],
                }
            ],
            "egress": [
                {"name": "outside", "action": "Accept", "to": to},
                {
                    "name": "rest",
                    "action": "Deny" if index % 2 else "Pass",
                    "to": [{"networks": ["198.51.100.0/24"]}],
                },
            ],
        },
    }
