"""knp: who decides whether this packet may pass.

One pure engine, several thin doors::

    manifests -> Cluster state -> compiled snapshot ─┐
    bytes -> packet ─────────────> engine.evaluate ──┴─> Decision -> table, log, verdict
    bytes -> dns ──> names learned ──┘

Layers, imports pointing down only (``pyproject.toml`` holds the contract):

* ``cli``: one module a command; the only place that prints or exits.
* ``adapters``: files and streams in and out.
* ``replay``, ``audit``, ``verdicts``: use cases over iterables; the verdict record.
* ``engine``: state, compiled snapshots, the one evaluator, names, flows, the one byte door.
* ``wire``, ``manifests``: bytes to values; decoded documents to values, with every problem.
* ``model``: values and enums.
* ``errors``: the exception tree.

The two doors: ``engine.evaluate.PolicyEngine.evaluate(packet, now=...)`` decides, and
``engine.datapath.Datapath.ingest(data, now=...)`` takes bytes. There is no second evaluator.
"""

__version__ = "0.1.0"
