// Pins the source of the Argo programs, which are built in a copy of it: see binaries.py.
module elasticdl/cluster/argo

go 1.25.0

require github.com/argoproj/argo-workflows/v4 v4.0.7
