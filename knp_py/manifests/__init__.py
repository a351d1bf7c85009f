"""Decoded documents to model objects, with every problem found. Pure: no files, no YAML.

::

    documents -> entries ──┬─> typed kinds (pods, clusterobjects, workloads, sandboxes)
     (adapters)  (Lists    └─> field by field (networkpolicy, clusterpolicy, adminpolicy,
                 unpacked)      sandbox templates)
                                  │
                    load: the objects, what stands twice, what is not read
                                  │
                    standins: pods and policies that documents stand for, then addresses

Plain kinds are decoded by type, so that the fields nobody reads cost nothing; policies are
read field by field, because a field nobody knows must be seen. ``load.load`` is the door.
"""
