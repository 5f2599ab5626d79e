#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the torch_npu libraries with their kernels in the CPU twin and runs this folder's tests on the fake runtime.
# Arguments go to pytest. setup_venv.sh comes first.
set -euo pipefail
unset CDPATH
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=${ASA_NPU_VENV:-$root/.venv-npu}
# The tree of scripts/build_twin.sh, in which the twin is compiled already.
build=${ASA_NPU_BUILD:-$root/build/twin}
if [ -z "${ASA_NPU_LIBRARY:-}" ]; then
    mkdir -p "$build"
    log="$build/npu.log"
    (
        flock 9  # the other tests build their part in the same tree
        cmake -S "$root" -B "$build" -DASA_LAUNCH=twin -DASA_TORCH=npu -DPython3_EXECUTABLE="$venv/bin/python" &&
            cmake --build "$build" --target asa_torch_npu cann_bench -j "${JOBS:-2}"
    ) > "$log" 2>&1 9> "$build/.lock" || { tail -n 60 "$log"; exit 1; }
    export ASA_NPU_LIBRARY="$build/framework/torch/libasa_torch_npu.so"
fi
# The toolkit's own paths would lead torch_npu to a real runtime.
unset ASCEND_HOME_PATH ASCEND_OPP_PATH ASCEND_CUSTOM_OPP_PATH
export LD_LIBRARY_PATH="$venv/fake_acl" PYTHONPATH="$root/python"
cd "$root"
# A cache of its own: the other tests may run at the same time.
exec "$venv/bin/python" -m pytest tests/framework -o cache_dir=.pytest_cache/framework "$@"
