#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All set-up, the linters, then every test. With arguments: only the main tests, and the arguments go to pytest.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
bash scripts/setup.sh test lint
bash scripts/build_twin.sh
if [ $# -eq 0 ]; then
  .venv/bin/ruff check .
  .venv/bin/ruff format --check .
  .venv/bin/mypy
  # torch_npu, once installed, is loaded by every `import torch`: it has an environment and a run of its own.
  bash tests/framework/setup_venv.sh
  bash tests/framework/run.sh
fi
exec .venv/bin/python -m pytest "$@"
