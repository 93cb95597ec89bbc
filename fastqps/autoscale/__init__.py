"""What a cluster's autoscaler would do with a server's signals: Kubernetes' algorithm, pods that do what a real one was
recorded to do, traffic, and what comes of it. Nothing here needs a cluster; ``fastqps bench autoscale`` runs it.
"""
