#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All set-up into .venv, then the main job of a machine without an NPU: the bundled cases, MLA and GQA, through the
# Ascend C kernel in the CPU twin, ending with the table of verdicts.
set -euo pipefail
unset CDPATH
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
echo "Setting up .venv (the first time downloads torch, 200 MB and more: a minute or several) ..."
bash scripts/setup.sh
echo "Building the CPU twin with the kernel (the first time two or three minutes; log: build/twin/build.log) ..."
bash scripts/build_twin.sh
echo "Running the Ascend C kernel in the CPU twin; a finding of its checker is an ERROR ..."
.venv/bin/sfa check quickstart --backend twin
echo "docs/precision.md says how to read the table. Next: source .venv/bin/activate; sfa trace mla-prefill -o trace.json --png trace.png"
