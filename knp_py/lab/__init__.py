"""A cluster of network namespaces on this machine: real packets, no Kubernetes.

::

    scenario ─> plan ─> topology     node, pods and the internet, tied together by veth
                     ├> services     ClusterIPs as destination NAT on the node
                     ├> servers      whoever answers: TCP, UDP, SCTP and DNS, everywhere
                     ├> manifestdir  the objects as files, which the agent watches
                     └> enforcer     ``knp agent`` on the node, its status and its clock
    expectation ─> livestage ─> attempts     real sockets inside the pod's namespace
                            └> verdictfeed   what the agent's log says of them

``laboratory`` puts it together, ``labstate`` remembers it across processes so that ``down``
finds everything, also after a crash; ``namespaces`` and ``processes`` are what all of it
stands on. As a library: ``topology.Topology`` builds pods, ``namespaces.inside`` goes there.

What is not here: reading files of the user's (``adapters``), judging (``engine``) and the
steps of a scenario (``replay``). Linux and root only.
"""
