#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All set-up, the linters, then every test. With arguments: only the main tests, and the arguments go to pytest.
set -euo pipefail
unset CDPATH
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
bash scripts/setup.sh test lint
if [ $# -ne 0 ]; then
  bash scripts/build_twin.sh
  exec .venv/bin/python -m pytest "$@"
fi

# Threads that wait for one another must not spin on cores that the other process needs.
export OMP_WAIT_POLICY=passive

# Two things at a time wherever neither needs the other: a download keeps no core busy, and most tests keep one.
mkdir -p build
background=""
trap '[ -z "$background" ] || kill "$background" 2>/dev/null || true' EXIT
# torch_npu, once installed, is loaded by every `import torch`: it has an environment and a run of its own.
bash tests/framework/setup_venv.sh >build/setup-npu.log 2>&1 &
background=$!
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
bash scripts/build_twin.sh
wait "$background" || { cat build/setup-npu.log >&2; echo "test: tests/framework/setup_venv.sh failed" >&2; exit 1; }

# The main tests' output comes second and whole, whichever run ends first.
log=build/test-main.log
.venv/bin/python -m pytest >"$log" 2>&1 &
background=$!
framework=0
bash tests/framework/run.sh || framework=$?
tail -n +1 -f --pid="$background" "$log"
main=0
wait "$background" || main=$?
background=""
[ $framework = 0 ] || echo "test: tests/framework/run.sh failed with exit code $framework; its output stands above the main tests'" >&2
[ $main != 0 ] || exit $framework
exit $main
