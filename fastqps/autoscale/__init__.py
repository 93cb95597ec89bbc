"""What a cluster's autoscaler would do with a server's signals: Kubernetes' algorithm, pods that behave as a real one was
recorded to, traffic, and what comes of it. Nothing here needs a cluster; ``fastqps bench autoscale`` runs it.
"""
