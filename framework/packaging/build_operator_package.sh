#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds CANN's operator package and leaves it in dist/. Usage: build_operator_package.sh TOOLKIT SOC JOBS PYTHON
set -euo pipefail
unset CDPATH
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
toolkit=$1 soc=$2 jobs=$3 python=$4

fail() {
    printf 'build_operator_package: %s\n' "$*" >&2
    exit 1
}

# Named rather than searched for: a toolkit holds hundreds of thousands of files, some of them behind links.
config=""
for folder in "$toolkit/lib64/cmake" "$toolkit/lib64/cmake/ASC" "$toolkit/$(uname -m)-linux/lib64/cmake"; do
    if [ -f "$folder/asc-config.cmake" ] || [ -f "$folder/ASCConfig.cmake" ]; then config=$folder; break; fi
done
[ -n "$config" ] || fail "expected CANN's CMake package for operator projects, asc-config.cmake, in $toolkit/lib64/cmake \
(CANN 8.5 and later), got none"

build="$root/build/operator-$soc"
staged="$build/staged"
# A kernel or library of an earlier build must not get into the package.
rm -rf "$build"
mkdir -p "$build"
log="$build/build.log"
echo "build_operator_package: building for $soc (log: build/operator-$soc/build.log)"
{
    cmake -S "$root/op_host/cann" -B "$build" "-DASC_DIR=$config" "-DASCEND_COMPUTE_UNIT=$soc" \
        "-DASCEND_PYTHON_EXECUTABLE=$python" -DASCEND_CHECK_OPTYPE_DUPLICATE=TRUE "-DASA_STAGED=$staged" &&
        cmake --build "$build" --target binary -j "$jobs" &&
        cmake --build "$build" -j "$jobs" &&
        cmake --install "$build"
} > "$log" 2>&1 || {
    tail -n 60 "$log" >&2
    fail "the build failed; its last words stand above"
}
mkdir -p "$root/dist"
# cann-bench installs dist/cann_bench*.run before the wheel; this package is not for that and has another name.
"$python" "$root/framework/packaging/run_package.py" "$staged/packages/vendors/asa" "$soc" \
    "$root/dist/ascend_sparse_attention_ops_${soc}_$(uname -m).run"
