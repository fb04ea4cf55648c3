"""Who is who in the cluster: one authority, a certificate for each program, and kubeconfigs that hold them.

Each program has the identity that a real cluster gives it, so that the roles Kubernetes comes with are what
lets it in.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.kit.commands import run
from tests.cluster.kit.site import Site

NO_DEFAULTS = "[req]\ndistinguished_name = name\n[name]\n"
EACH = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "3650", "-sha256")


@dataclass(frozen=True, slots=True)
class Authority:
    """The certificates of one cluster, in a folder."""

    folder: Path

    @classmethod
    def found(cls, folder: Path) -> Authority:
        """Makes the authority, and the key that service accounts' tokens are signed with."""
        folder.mkdir(mode=0o700)
        (folder / "openssl.conf").write_text(NO_DEFAULTS)
        authority = cls(folder)
        authority._request(
            "ca", "/CN=kubernetes", "basicConstraints=critical,CA:TRUE", "keyUsage=keyCertSign,cRLSign"
        )
        run("openssl", "genpkey", "-algorithm", "EC", *EACH[2:4], "-out", authority.key("accounts"))
        run("openssl", "pkey", "-in", authority.key("accounts"), "-pubout", "-out", folder / "accounts.pub")
        return authority

    def certificate(self, name: str) -> Path:
        """Where it is."""
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        """Where it is."""
        return self.folder / f"{name}.key"

    def issue(self, name: str, *, user: str, group: str = "", serves: tuple[str, ...] = ()) -> None:
        """Makes certificate and key of `user`, or of a server with these names and addresses."""
        subject = (f"/O={group}" if group else "") + f"/CN={user}"
        names = f"subjectAltName={','.join(serves)}" if serves else ""
        usage = "extendedKeyUsage=" + ("serverAuth" if serves else "clientAuth")
        signed = ("-CA", self.certificate("ca"), "-CAkey", self.key("ca"))
        self._request(name, subject, "basicConstraints=CA:FALSE", usage, names, also=signed)

    def kubeconfig(
        self, path: Path, site: Site, name: str, *, user: str, group: str = "", namespace: str = ""
    ) -> Path:
        """Writes what lets its holder speak to the API as `user`, in one file, and returns its path."""
        self.issue(name, user=user, group=group)
        cluster = {"server": site.server, "certificate-authority-data": _base64(self.certificate("ca"))}
        identity = {
            "client-certificate-data": _base64(self.certificate(name)),
            "client-key-data": _base64(self.key(name)),
        }
        context = {"cluster": site.name, "user": name, "namespace": namespace or "default"}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": site.name, "cluster": cluster}],
            "users": [{"name": name, "user": identity}],
            "contexts": [{"name": site.name, "context": context}],
            "current-context": site.name,
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(content, indent=1))
        return path

    def _request(self, name: str, subject: str, *extensions: str, also: tuple[object, ...] = ()) -> None:
        added = [word for extension in extensions if extension for word in ("-addext", extension)]
        files = (
            "-config",
            self.folder / "openssl.conf",
            "-keyout",
            self.key(name),
            "-out",
            self.certificate(name),
        )
        run("openssl", "req", "-x509", *EACH, "-subj", subject, *added, *files, *also)


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
