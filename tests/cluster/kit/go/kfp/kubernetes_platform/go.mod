module github.com/kubeflow/pipelines/kubernetes_platform

go 1.25.0

require (
	github.com/kubeflow/pipelines/api v0.0.0
	google.golang.org/protobuf v1.36.6
)
