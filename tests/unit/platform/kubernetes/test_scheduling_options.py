"""`--node_selector` and `--toleration`: every form, and every mistake by name."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic_runtime.errors import InputError
from elastic_runtime.spec.scheduling import Toleration, parse_node_selector, parse_tolerations


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("", {}),
        ("pool=train", {"pool": "train"}),
        (" pool = train , zone=a,", {"pool": "train", "zone": "a"}),
        ("node-role.kubernetes.io/worker=", {"node-role.kubernetes.io/worker": ""}),
    ],
)
def test_a_node_selector_is_labels(text, labels):
    assert parse_node_selector(text) == labels


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pool", "not of the form key=value"),
        ("pool=a,pool=b", "'pool' is given twice"),
        ("a b=c", "'a b' cannot be the key of a label"),
        ("Example.com/pool=c", "cannot be the key of a label"),
        ("pool=a b", "'a b' cannot be the value of a label"),
        (f"pool={'a' * 64}", "cannot be the value of a label"),
    ],
)
def test_a_node_selector_that_no_node_could_have_is_refused(text, told):
    with pytest.raises(InputError) as error:
        parse_node_selector(text)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("text", "tolerations"),
    [
        ("", ()),
        ("key=a,value=b", (Toleration(key="a", value="b"),)),
        ("key=a", (Toleration(key="a"),)),
        (
            "key=example.com/pool,operator=Equal,value=train,effect=NoSchedule",
            (Toleration(key="example.com/pool", value="train", effect="NoSchedule"),),
        ),
        (
            "; key=a , operator=Exists ;; operator=Exists,effect=NoExecute,seconds=60;",
            (
                Toleration(key="a", operator="Exists"),
                Toleration(operator="Exists", effect="NoExecute", seconds=60),
            ),
        ),
    ],
)
def test_tolerations(text, tolerations):
    assert parse_tolerations(text) == tolerations


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("keys=a", "did you mean 'key'?"),
        ("key=a,operator=Exist", "did you mean 'Exists'?"),
        ("key=a,effect=NoSchedul", "did you mean 'NoSchedule'?"),
        ("key=a,operator=Exists,value=b", "takes no value"),
        ("value=b", "a toleration needs a key"),
        ("key=a,seconds=60", "goes with effect=NoExecute only"),
        ("key=a,effect=NoExecute,seconds=1m", "seconds=1m is not a whole number"),
        ("key=a b", "cannot be the key of a label"),
    ],
)
def test_a_toleration_that_kubernetes_would_refuse_is_refused(text, told):
    with pytest.raises(InputError) as error:
        parse_tolerations(text)
    assert told in str(error.value)


@pytest.mark.parametrize("parser", [parse_node_selector, parse_tolerations])
@given(text=st.text(max_size=40))
def test_any_text_is_read_or_refused_in_words(parser, text):
    with contextlib.suppress(InputError):
        parser(text)
