"""The whole product on virtual clock and virtual AWS, from one seed, with everything going wrong: `make simulate`.

marketplace.py  what people do, as data       faults.py      what goes wrong, each with a rate and a count
cloud.py        what AWS does between handlers  provider.py  who moves the money
states.py       Step Functions                invariants.py  what must hold after every step, and at the end
run.py          `simulate(settings) -> Result`  shrink.py    the shortest scenario that still fails
"""
