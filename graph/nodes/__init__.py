"""The work of each node, in the order of the graph: prepare, propose, evaluate, finish.

Every node can be run again after a kill: what it leaves are records found by key, files written whole, and commits
found by trailer.
"""
