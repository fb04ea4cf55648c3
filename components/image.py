"""The image that every step runs in, unless a pipeline sets another with `task.set_container_image(...)`, or
its command is told one (`--image`).

It holds this package, the models and, where KFP runs the steps, KFP's package, so nothing is installed when a
step starts; docs/images.md tells how it is built. The tag is fixed: KFP tells by the image's name whether a
step has run before.
"""

IMAGE = "elasticdl/elasticdl:1.0.0"
