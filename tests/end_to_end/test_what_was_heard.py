"""The default queue as a whole, after all that the other tests did: this file is the last one."""

from collections import defaultdict

from local.world import World
from tests.unit import event_schemas


def test_every_event_that_arrived_is_as_documented(world: World) -> None:
    world.inbox.read()
    assert len(world.inbox) > 0
    for event in world.inbox:
        event_schemas.check(event.raw)


def test_no_version_of_any_booking_is_missing_in_the_queue(world: World) -> None:
    world.inbox.read()
    versions: dict[str, list[int]] = defaultdict(list)
    for event in world.inbox:
        versions[event.booking_id].append(event.version)
    gaps = {name: found for name, found in versions.items() if sorted(found) != list(range(1, max(found) + 1))}
    assert gaps == {}
