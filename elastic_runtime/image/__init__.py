"""Images that hold a user's models and this program.

`zoo init` writes a Dockerfile and what it needs, `zoo build` and `zoo push` hand it to Docker, Podman or
buildah, and `image_for` does all three for a job that is submitted, or finds that its image exists already.
"""

from elastic_runtime.image.choice import Built, image_for

__all__ = ["Built", "image_for"]
