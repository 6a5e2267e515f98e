"""Python runs this file at start, since `run_pysc2.py` puts its folder on PYTHONPATH.

pysc2 4.0.0 cannot be imported on a current Python and protobuf. The converter's import hook
mends that in memory; pysc2's files stay as they were published.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[5]))

from starmill.converters import protos  # noqa: E402  # found on the path set above

protos.install()
