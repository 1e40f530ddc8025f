"""What happens between replicas, in SimPy's time: arrivals, routing, clients."""
