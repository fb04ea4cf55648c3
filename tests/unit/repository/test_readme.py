"""What a newcomer types from README.md is understood, and what it points to is there."""

import re
import shlex
from pathlib import Path

import click
import pytest

from elastic_runtime.cli.main import elasticdl
from elastic_runtime.spec.arguments import parse
from elastic_runtime.spec.flags import COMMANDS, flags
from elastic_runtime.spec.job import JobSpec

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHELL = "\n".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL)).replace("\\\n", " ")
LINES = [words for line in SHELL.splitlines() if (words := shlex.split(line, comments=True))]
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def understand(words):
    if words[0] in COMMANDS:
        return parse(words[0], words[1:])
    command: click.Command = elasticdl
    context = click.Context(elasticdl)
    while isinstance(command, click.Group):
        command = command.get_command(context, words[0]) or pytest.fail(f"no command {words[0]}")
        words = words[1:]
    return command.make_context(command.name, words)


@pytest.mark.parametrize("words", [line for line in LINES if line[0] == "elasticdl"], ids=shlex.join)
def test_an_elasticdl_command_of_the_readme_is_understood(words):
    assert understand(words[1:])


def test_every_make_target_of_the_readme_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake ([a-z]+)`", README)) | {line[1] for line in LINES if line[0] == "make"}
    assert {"run", "test"} <= named <= targets


def test_the_options_of_the_readme_exist():
    known = {flag.option for flag in flags(JobSpec)}
    named = set(re.findall(r"`(--\w+)(?:=\w+)?`", README))
    assert named
    assert named <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_links_to_is_there(page):
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    assert [link for link in links if "://" not in link and not is_there(page, link)] == []


def is_there(page, link):
    """What is linked, and the head in it that is meant."""
    name, _, anchor = link.partition("#")
    meant = page.parent / name if name else page
    return meant.exists() and (not anchor or anchor in anchors(meant))


def anchors(page):
    """Those that a page has for its heads, as GitHub makes them."""
    text = re.sub(r"^( *)```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    found = []
    for head in re.findall(r"^#+ +(.*?) *$", text, re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", head).lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found.append(anchor)
    return found


@pytest.mark.tensorflow
def test_the_model_of_the_readme_learns(tmp_path):
    from elastic_runtime.data.mnist import convert_mnist, sample
    from elastic_runtime.data.readers import open_reader
    from elastic_runtime.model.module import load
    from elastic_runtime.worker.feed import ShardFeed
    from elastic_runtime.worker.trainers.local import LocalTrainer

    text, _ = PYTHON
    file = tmp_path / "digits.py"
    file.write_text(text)
    convert_mnist(str(tmp_path), sample())
    module = load(file, None, names={}, model_params={"units": 128})
    reader = open_reader(str(tmp_path / "test"), {})
    feed = ShardFeed(feed=module.feed, mode="training", metadata=None, batch_size=50)
    trainer = LocalTrainer(module)
    trainer.build(feed.element_spec)
    feed.put(1, reader.read(reader.sources()[0].name, 0, 1000))
    losses = [trainer.train_batch(batch).loss for batch in feed.batches(1)]
    feed.close()
    assert len(losses) == 20
    assert losses[-1] < 0.8 * losses[0]
    assert set(module.create_metrics()) == {"accuracy"}
