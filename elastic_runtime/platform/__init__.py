"""What can run a pod, behind one interface: this machine, Kubernetes, or virtual time."""
