#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the torch_npu libraries with their kernels in the CPU twin and runs this folder's tests on the fake runtime.
# Arguments go to pytest. setup_venv.sh comes first.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=${ASA_NPU_VENV:-$root/.venv-npu}
build=${ASA_NPU_BUILD:-$root/build/npu-twin}
mkdir -p "$(dirname "$build")"
if [ -z "${ASA_NPU_LIBRARY:-}" ]; then
    cmake -S "$root" -B "$build" -DASA_LAUNCH=twin -DASA_TORCH=npu -DPython3_EXECUTABLE="$venv/bin/python" > "$build.log" 2>&1 ||
        { cat "$build.log"; exit 1; }
    cmake --build "$build" --target asa_torch_npu cann_bench -j "${JOBS:-2}" >> "$build.log" 2>&1 || { tail -n 60 "$build.log"; exit 1; }
    export ASA_NPU_LIBRARY="$build/framework/torch/libasa_torch_npu.so"
fi
# The toolkit's own paths would lead torch_npu to a real runtime.
unset ASCEND_HOME_PATH ASCEND_OPP_PATH ASCEND_CUSTOM_OPP_PATH
export LD_LIBRARY_PATH="$venv/fake_acl" PYTHONPATH="$root/python"
cd "$root"
exec "$venv/bin/python" -m pytest tests/framework "$@"
