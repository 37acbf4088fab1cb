"""A plugin of pytest (`-p simulation.planted`): plants the mutant that the environment names, before any import."""

import os

from simulation.mutants import BY_NAME
from simulation.planting import PLANTED, plant

plant(BY_NAME[os.environ[PLANTED]])
