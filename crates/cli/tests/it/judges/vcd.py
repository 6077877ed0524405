"""Prints a value change dump as JSON, as the package vcdvcd reads it."""

import json
import sys

from vcdvcd import VCDVCD

dump = VCDVCD(sys.argv[1])
signals = {name: dump[name].tv for name in dump.signals}
print(json.dumps({"timescale": str(dump.timescale["timescale"]), "end": dump.endtime, "signals": signals}))
