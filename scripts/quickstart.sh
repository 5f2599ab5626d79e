#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All set-up into .venv, then the main job: a precision check of the bundled cases, ending with its table.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
echo "Setting up .venv (the first time downloads torch) ..."
bash scripts/setup.sh
exec .venv/bin/sfa check quickstart --backend cpu
