#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up .venv with the pinned versions and the package itself (editable). Sourced by quickstart.sh and test.sh; safe to run again.
# Usage: setup.sh [extra ...]   e.g. setup.sh test lint
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

python=${PYTHON:-python3}
"$python" - <<'PY' || exit 2
import sys
if not (3, 10) <= sys.version_info[:2] <= (3, 13):
    sys.exit(f"setup: expected Python 3.10 to 3.13, got {sys.version.split()[0]}; name another by PYTHON=/path/to/python3")
PY
[ -x .venv/bin/python ] || "$python" -m venv .venv
extras=$(IFS=,; echo "$*")
pip="$root/.venv/bin/python -m pip install --quiet --disable-pip-version-check"
# A plain `pip install torch` on Linux brings several GB of CUDA; the tag of the CPU build differs by index, the version does not.
$pip "torch==2.13.0" "numpy"
$pip -e ".${extras:+[$extras]}"
