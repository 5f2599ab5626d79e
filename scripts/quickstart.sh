#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All set-up into .venv, then the main job of a machine without an NPU: the bundled cases, MLA and GQA, through the
# Ascend C kernel in the CPU twin, ending with the table of verdicts.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
echo "Setting up .venv (the first time downloads torch) ..."
bash scripts/setup.sh
echo "Building the CPU twin with the kernel ..."
bash scripts/build_twin.sh
exec .venv/bin/sfa check quickstart --backend twin
