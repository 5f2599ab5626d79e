#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds CANN's operator package and leaves it in dist/. Usage: build_operator_package.sh TOOLKIT SOC JOBS
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
toolkit=$1 soc=$2 jobs=$3
build="$root/build/operator-$soc"
cmake -S "$root/op_host/cann" -B "$build" "-DCMAKE_PREFIX_PATH=$toolkit;$toolkit/lib64/cmake" "-DASCEND_COMPUTE_UNIT=$soc"
cmake --build "$build" --target binary package -j "$jobs"
package=$(find "$build" -maxdepth 2 -name '*.run' | head -n 1)
[ -n "$package" ] || { echo "build_operator_package: expected a .run in $build, got none" >&2; exit 1; }
mkdir -p "$root/dist"
# cann-bench installs dist/cann_bench*.run before the wheel; this package is not for that.
cp "$package" "$root/dist/ascend_sparse_attention_ops_${soc}_$(uname -m).run"
