#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the CPU twin with the kernel in it (python/ascend_sparse_attention/lib/libasa_twin.so). Quick when nothing changed.
set -euo pipefail
unset CDPATH
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build="$root/build/twin"
for tool in cmake g++; do
  command -v "$tool" >/dev/null || { echo "build_twin: expected $tool on PATH, found none" >&2; exit 2; }
done
mkdir -p "$build"
log="$build/build.log"
(
  flock 9  # the tests build their parts in the same tree
  # OFF: what the tests asked for in this tree may need an interpreter that is no longer there.
  cmake -S "$root" -B "$build" -DASA_LAUNCH=OFF -DASA_TORCH=OFF && cmake --build "$build" --target asa_twin --parallel 2
) >"$log" 2>&1 9>"$build/.lock" || {
  tail -n 60 "$log" >&2
  echo "build_twin: the build failed; the whole log is in build/twin/build.log" >&2
  exit 1
}
