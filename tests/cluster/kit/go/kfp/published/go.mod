// Pins the one package that is taken as it was published: see kfp_programs.py.
module elasticdl/cluster/kfp/published

go 1.25.0

require github.com/kubeflow/pipelines/api v0.0.0-20250102152816-873e9dedd766
