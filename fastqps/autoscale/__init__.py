"""A simulator of autoscaling on a server's signals.

It has Kubernetes' algorithm, pods that behave as a real one was recorded to, and traffic. Nothing here needs a
cluster; ``fastqps bench autoscale`` runs it.
"""
