"""Errors of the user's code are told without the frames of TensorFlow and of this program."""

import pickle
import re
import sysconfig

import pytest

from elastic_runtime.errors import InputError
from elastic_runtime.model.user_code import UserCodeError, told, user_code


def fail(message):
    raise ValueError(message)


def caught(message, symbol="feed"):
    with pytest.raises(UserCodeError) as info, user_code(symbol):
        fail(message)
    return info.value


def test_error_names_place_symbol_and_cause():
    error = caught("too short")
    assert re.search(r"test_user_code\.py:\d+, in feed: ValueError: too short$", str(error))
    assert error.symbol == "feed"
    assert "raise ValueError(message)" in error.traceback_text


def test_traceback_inside_a_message_keeps_only_the_users_frames():
    theirs = f'  File "{sysconfig.get_path("purelib")}/tensorflow/x.py", line 1, in f\n    theirs()\n'
    mine = '  File "/home/me/model.py", line 7, in g\n    mine()\n'
    said = "KeyError: 'boom'\n"
    noise = "\t [[{{node PyFunc}}]] [Op:X]"
    error = caught(f"{said}Traceback (most recent call last):\n\n{theirs}\n{mine}\n{said}\n{noise}")
    assert "/home/me/model.py:7, in feed: KeyError: 'boom'" in str(error)
    assert "mine()" in error.traceback_text
    assert "node PyFunc" not in error.traceback_text
    assert "theirs()" not in error.traceback_text


def test_error_that_is_already_told_passes_unchanged():
    problem = InputError("wrong")
    assert told("loss", problem) is problem


def test_error_survives_the_way_to_another_process():
    error = caught("too short")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.symbol, again.traceback_text) == (
        str(error),
        error.symbol,
        error.traceback_text,
    )


def test_error_of_a_running_graph_is_told_by_what_it_says():
    error = caught(
        "Graph execution error:\n\nDetected at node Cross defined at (most recent call last):\n"
        '  File "/home/me/model.py", line 7, in loss\n\nReceived a label value of 55\n\t [[{{node Cross}}]]'
    )
    assert str(error) == "/home/me/model.py:7, in feed: ValueError: Received a label value of 55"
