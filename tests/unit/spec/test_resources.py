"""Resources in forms that nobody types: quantities as Kubernetes has them, and devices by their own names."""

from __future__ import annotations

import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.spec.resources import excess, parse_resources


@pytest.mark.parametrize("name", ["memory", "ephemeral-storage"])
def test_a_number_of_bytes_needs_no_unit(name: str) -> None:
    assert parse_resources(f"{name}=536870912") == {name: "536870912"}
    assert excess(f"{name}=536870912", f"{name}=512Mi") == ""
    assert "limited to 511Mi" in excess(f"{name}=536870912", f"{name}=511Mi")


def test_a_unit_that_was_forgotten_is_missed() -> None:
    with pytest.raises(InputError, match="a whole number and a unit"):
        parse_resources("memory=4096")


@pytest.mark.parametrize(
    "name", ["google.com/tpu", "nvidia.com/mig-1g.5gb", "nvidia.com/gpu.shared", "rdma/hca_shared_devices_a"]
)
def test_a_device_has_its_vendors_domain_before_its_name(name: str) -> None:
    assert parse_resources(f"{name}=2") == {name: "2"}


@pytest.mark.parametrize("name", ["/gpu", "google.com/", "google.com/a/b", "Google.com/a", "nvidia.com.gpu"])
def test_what_kubernetes_takes_for_no_name_of_a_device_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="unknown resource"):
        parse_resources(f"{name}=1")
