module elasticdl/cluster/pause

go 1.24
