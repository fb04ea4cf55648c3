"""One repository of a registry, through the API that all registries have (OCI distribution).

Blobs go in and out as streams, and what the repository has already is not sent. Whoever we are is shown when
the registry asks for it. Failures that pass are tried again; those that stay are one error with its remedy.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Collection, Iterable, Iterator, Mapping
from http.client import HTTPResponse

from elastic_runtime.errors import ElasticError
from elastic_runtime.image.registry import authority
from elastic_runtime.image.registry.blob import Blob, Document, digest_of
from elastic_runtime.image.registry.reference import Reference
from elastic_runtime.image.registry.wire import Trouble, Wire, body_of, insist, reason

PATIENCE_SECONDS = 120.0
_LARGEST_DOCUMENT = 4 << 20  # the limit that registries have for manifests
_REFUSALS = {401, 403}
_LOST_UPLOAD = {400, 404, 416}  # another replica was asked, or what was sent arrived damaged


class Repository:
    """Reads from the repository of `image`; and writes to it, if asked for.

    A neighbour is a repository of the same registry that shares its blobs with this one.
    """

    def __init__(
        self,
        image: Reference,
        *,
        writes: bool = False,
        neighbour: str = "",
        insecure_registries: Collection[str] = (),
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.image = image
        plain = image.is_here or image.registry in insecure_registries
        self._wire = Wire(image.address, plain=plain, direct=image.is_here)
        self._root = f"{self._wire.root}v2/"
        self._patience = patience
        self._neighbour = neighbour
        self._scopes = [f"repository:{image.repository}:{'pull,push' if writes else 'pull'}"]
        if neighbour:
            self._scopes.append(f"repository:{neighbour}:pull")
        self._authorization = ""

    def manifest(self, version: str, accept: Iterable[str]) -> Document:
        """The manifest of a tag or digest, of one of these media types."""

        def get() -> Document:
            answer = self._ask("GET", f"manifests/{version}", headers={"Accept": ", ".join(accept)})
            if answer.status != 200:
                raise self._failed(answer, f"there is no image {self.image}")
            return Document(self._whole(answer), answer.headers.get_content_type())

        document = insist(get, patience=self._patience)
        if version.startswith("sha256:") and digest_of(document.content) != version:
            raise ElasticError("the registry gave another image than this", where=f"{self.image}")
        return document

    def document(self, digest: str) -> bytes:
        """A small blob."""

        def get() -> bytes:
            content = self._whole(self._blob(digest))
            if digest_of(content) != digest:
                raise Trouble("arrived damaged", where=f"{self.image}")
            return content

        return insist(get, patience=self._patience)

    def chunks(self, digest: str) -> Iterator[bytes]:
        """A blob as it comes, unchecked: who takes it knows its digest."""
        yield from body_of(self._blob(digest))

    def put_blob(self, blob: Blob, *, shared: bool = False) -> bool:
        """Has the repository hold the blob, which the neighbour may share; says whether it had to be sent."""
        return insist(lambda: self._put_blob(blob, shared=shared), patience=self._patience)

    def put_manifest(self, document: Document, tag: str) -> str:
        """Gives the image its tag, and returns its digest. All its blobs must be there."""

        def put() -> str:
            answer = self._ask(
                "PUT",
                f"manifests/{tag}",
                headers={"Content-Type": document.media_type},
                body=document.content,
            )
            if answer.status != 201:
                raise self._failed(answer, "the registry does not take the image")
            answer.close()
            return digest_of(document.content)

        return insist(put, patience=self._patience)

    def _put_blob(self, blob: Blob, *, shared: bool) -> bool:
        found = self._ask("HEAD", f"blobs/{blob.digest}")
        found.close()
        if found.status == 200:
            return False
        place = self._begin_upload(blob.digest, self._neighbour if shared else "")
        if place:
            self._upload(blob, place)
        return bool(place)

    def _begin_upload(self, digest: str, neighbour: str) -> str:
        """Where to send the blob to; nowhere, if the neighbour's was taken."""
        if neighbour:
            query = urllib.parse.urlencode({"mount": digest, "from": neighbour})
            begun = self._ask("POST", f"blobs/uploads/?{query}")
            begun.close()
            if begun.status == 201:
                return ""
        if not neighbour or begun.status != 202:
            begun = self._ask("POST", "blobs/uploads/")
        if begun.status != 202 or not begun.headers["Location"]:
            raise self._failed(begun, "the registry takes no upload")
        begun.close()
        return str(begun.headers["Location"])

    def _upload(self, blob: Blob, place: str) -> None:
        place += f"{'&' if '?' in place else '?'}digest={urllib.parse.quote(blob.digest, safe='')}"
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(blob.size)}
        done = self._ask("PUT", place, headers=headers, body=blob.chunks())
        if done.status in _LOST_UPLOAD:
            raise Trouble(reason(done), where=f"upload to {self.image.registry}")
        if done.status >= 300:
            raise self._failed(done, "the upload was refused")
        done.close()

    def _blob(self, digest: str) -> HTTPResponse:
        answer = self._ask("GET", f"blobs/{digest}")
        if answer.status != 200:
            raise self._failed(answer, f"a part of the image is missing, {digest}")
        return answer

    def _ask(
        self,
        method: str,
        place: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | Iterable[bytes] | None = None,
    ) -> HTTPResponse:
        """Asks, and once more when the registry wants to know who we are."""
        address = self._at_home(urllib.parse.urljoin(f"{self._root}{self.image.repository}/", place))
        if method == "POST":
            body = b""  # with a length of 0, which Google's registry insists on
        for last in (False, True):
            answer = self._wire.send(
                method,
                address,
                headers=headers or {},
                authorization=self._authorization if address.startswith(self._root) else "",
                body=body,
            )
            if answer.status != 401 or last:
                break
            answer.close()
            challenge = ", ".join(answer.headers.get_all("WWW-Authenticate", []))
            self._authorization = authority.authorize(self._wire, challenge, self.image, self._scopes)
            if body is not None and not isinstance(body, bytes):
                raise Trouble("the right to write ran out", where=self.image.registry)
        return answer

    def _at_home(self, address: str) -> str:
        """An address of the registry as we reach it; one behind a proxy may take itself for plain HTTP."""
        try:
            parts, root = urllib.parse.urlsplit(address), urllib.parse.urlsplit(self._root)
            same = parts.hostname == root.hostname and parts.port in {root.port, None, 80, 443}
        except ValueError as error:
            raise ElasticError(f"sends us to {address!r}: {error}", where=self.image.registry) from error
        return parts._replace(scheme=root.scheme, netloc=root.netloc).geturl() if same else address

    def _whole(self, answer: HTTPResponse) -> bytes:
        content = b""
        for piece in body_of(answer):
            content += piece
            if len(content) > _LARGEST_DOCUMENT:
                raise ElasticError("is too large for what it should be", where=f"{self.image}")
        return content

    def _failed(self, answer: HTTPResponse, what: str) -> ElasticError:
        where = f"{self.image}"
        if answer.status in _REFUSALS:
            return authority.refused(self.image, reason(answer))
        if answer.status == 413:
            what, remedy = "the registry, or a proxy before it, takes nothing of this size", ""
        else:
            remedy = "is its name right, and is it for us to see?" if answer.status == 404 else ""
        return ElasticError(f"{what}: {reason(answer)}", where=where, remedy=remedy)
