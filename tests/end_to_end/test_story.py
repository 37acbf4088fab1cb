"""The demo's story, scene by scene, on the same steps."""

from collections.abc import Callable

import pytest

from local.story import SCENES, Statement, Story
from local.world import World


class Listener:
    """Hears the story and holds it to its word."""

    def __init__(self) -> None:
        self.held: list[Statement] = []

    def tell(self, what: str) -> None:
        pass

    def check(self, statement: Statement, holds: bool, found: object) -> None:
        assert holds, f"{statement} Found: {found}"
        self.held.append(statement)


@pytest.fixture(scope="module")
def listener() -> Listener:
    return Listener()


@pytest.fixture(scope="module")
def story(world: World, listener: Listener) -> Story:
    return Story(world, listener)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_every_statement_of_a_scene_holds(story: Story, scene: Callable[[Story], None]) -> None:
    scene(story)


def test_every_statement_was_checked_once_and_nothing_that_ran_was_early(story: Story, listener: Listener) -> None:
    assert sorted(listener.held) == sorted(Statement)
    ran = story.what_ran()
    assert len(ran) >= 14
    assert [line for line in ran if line.at < line.due] == []
