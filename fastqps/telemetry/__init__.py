"""What a server tells about itself: metrics, traces, the live page, its capacity."""
