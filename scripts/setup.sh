#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up .venv with the pinned versions and the package itself (editable). Run by quickstart.sh and test.sh; safe to run again.
# Usage: setup.sh [extra ...]   e.g. setup.sh test lint
set -euo pipefail
unset CDPATH
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
# pip takes seconds even when there is nothing to do: skip it while neither the project's metadata nor this script changed.
stamp=".venv/setup-${extras:-plain}-$(cat pyproject.toml scripts/setup.sh | sha256sum | cut -c1-16)"
if [ ! -e "$stamp" ]; then
  pip="$root/.venv/bin/python -m pip install -qq --disable-pip-version-check"
  $pip "torch==2.13.0"
  $pip -e ".${extras:+[$extras]}"
  touch "$stamp"
fi
