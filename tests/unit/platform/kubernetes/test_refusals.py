"""What the API server's refusals are taken for; on a real one `tests/cluster/test_api.py` looks at them."""

from elastic_runtime.platform.kubernetes.errors import Forbidden, NoQuota, of_status


def test_a_quota_that_nobody_has_counted_yet_is_waited_for_like_a_full_one() -> None:
    """So it is for a moment after it was made, which no test can hold."""
    uncounted = 'pods "a" is forbidden: status unknown for quota: few, resources: pods'
    assert type(of_status({"code": 403, "message": uncounted})) is NoQuota
    assert type(of_status({"code": 403, "message": 'pods "a" is forbidden: no'})) is Forbidden
