"""Every command of the tutorials' pages is typed by a test; told by reading, since typing takes a cluster."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
TESTS = {
    each.name: each
    for each in ast.parse((ROOT / "tests" / "cluster" / "test_tutorials.py").read_text()).body
    if isinstance(each, ast.FunctionDef)
}
FENCE = re.compile(r"^(?:<!-- (block|file): (\S+) -->\n)?```\w+\n", re.MULTILINE)
TYPES = ("type", "type_once", "begin")
NOT_TYPED = {
    ("local.md", "install"): "would put a copy in the place of the program that all tests run",
    ("local.md", "minikube"): "the tests' own cluster stands in for Minikube, which is not on this machine",
    ("cloud.md", "install"): "as that of local.md",
}


def texts(tree):
    constants = [each.value for each in ast.walk(tree) if isinstance(each, ast.Constant)]
    return [value for value in constants if isinstance(value, str)]


def pages_of(test, seen=()):
    """The pages that a test or fixture opens, itself or by those that it names."""
    tree = TESTS[test]
    named = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
    named |= {each.arg for each in ast.walk(tree) if isinstance(each, ast.arg)}
    others = (named & TESTS.keys()) - {test, *seen}
    found = {text for text in texts(tree) if text.endswith(".md")}
    return found.union(*(pages_of(other, (test, *seen)) for other in others))


def typed():
    """The page and name of each block that a test types."""
    found = set()
    for test, tree in TESTS.items():
        calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call)]
        types = [each for each in calls if isinstance(each.func, ast.Attribute) and each.func.attr in TYPES]
        blocks = {text for call in types for part in (*call.args, *call.keywords) for text in texts(part)}
        if blocks:
            (page,) = pages_of(test)
            found |= {(page, block) for block in blocks}
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_is_typed_or_it_is_said_why_not(page):
    blocks = [name for kind, name in FENCE.findall(page.read_text()) if kind != "file"]
    assert "" not in blocks, "commands without a name"
    assert len(set(blocks)) == len(blocks)
    told = {block for other, block in {*typed(), *NOT_TYPED} if other == page.name}
    assert told == set(blocks)


def test_what_is_said_not_to_be_typed_is_not():
    assert typed() & NOT_TYPED.keys() == set()
