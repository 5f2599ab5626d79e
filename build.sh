#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds what is installed: dist/cann_bench-*.whl, dist/ascend_sparse_attention-*.whl and, with CANN,
# dist/ascend_sparse_attention_ops_*.run. The wheels come first: no fault of the .run costs them.
set -euo pipefail
unset CDPATH  # with it, cd may go elsewhere and print where
# Through links: what --clean removes lies beside the script itself.
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
cd "$root"

usage() {
    cat <<'TEXT'
Usage: bash build.sh [--soc=ascend910b|ascend910_93] [--twin] [--pkg] [--jobs=N] [--clean]
  (nothing)   build for the SoC of this machine with the CANN that ASCEND_HOME_PATH names
  --soc=NAME  build for another SoC, or on a machine without an NPU
  --twin      no CANN: the wheels' kernels run in the CPU twin, on CPU tensors
  --pkg       only the operator package (.run), and fail if it cannot be built
  --jobs=N    compile N files at a time (default: number of cores)
  --clean     remove build/ and dist/ and stop
PYTHON names the interpreter to build for; the default is python3. ASA_BUILD_SECONDS (480) is how long the build may take
before it leaves the .run out: cann-bench ends a build after 600 s. --pkg has no limit.
TEXT
}

fail() {
    printf 'build.sh: %s\n' "$*" >&2
    exit 1
}

soc="" twin=0 pkg_only=0 clean=0 jobs=$(nproc)
for argument in "$@"; do
    case "$argument" in
        --soc=?*) soc=${argument#--soc=} ;;
        --soc=) fail "--soc: expected ascend910b or ascend910_93, got ''" ;;
        --twin) twin=1 ;;
        --pkg) pkg_only=1 ;;
        --jobs=*) jobs=${argument#--jobs=} ;;
        --clean) clean=1 ;;
        -h | --help) usage; exit 0 ;;
        *) usage >&2; fail "unknown argument $argument" ;;
    esac
done
[[ $jobs =~ ^[1-9][0-9]{0,3}$ ]] || fail "--jobs: expected a number of 1 to 9999, got '$jobs'"
seconds=${ASA_BUILD_SECONDS:-480}
[[ $seconds =~ ^[1-9][0-9]{0,5}$ ]] || fail "ASA_BUILD_SECONDS: expected a number of 1 to 999999, got '$seconds'"
[ $twin = 0 ] || [ $pkg_only = 0 ] || fail "--pkg needs CANN; it does not go with --twin"
[ $twin = 0 ] || [ -z "$soc" ] || fail "--soc needs CANN; it does not go with --twin"
if [ $clean = 1 ]; then
    [ $# = 1 ] || fail "--clean: expected no argument beside it, got $*"
    rm -rf build dist
    exit 0
fi

# Everything below uses this interpreter by its full path: another python3 on PATH cannot get in between.
python=$(command -v "${PYTHON:-python3}") || fail "expected an interpreter, got '${PYTHON:-python3}' (set PYTHON)"
given=$python
python=$("$given" -c 'import sys; print(sys.executable if sys.version_info >= (3, 10) else "")' 2> /dev/null) || python=""
[ -x "$python" ] ||
    fail "PYTHON: expected Python 3.10 or later, got $given, $("$given" --version 2>&1 < /dev/null | head -n 1)"
export TORCH_DEVICE_BACKEND_AUTOLOAD=0  # a build needs no device

if [ $twin = 0 ]; then
    toolkit=${ASCEND_HOME_PATH:-}
    [ -n "$toolkit" ] || fail "no CANN: ASCEND_HOME_PATH is not set (source CANN's set_env.sh). \
For a build whose kernels run in the CPU twin: bash build.sh --twin"
    case "$toolkit" in /*) ;; *) fail "no CANN: ASCEND_HOME_PATH: expected an absolute path, got $toolkit" ;; esac
    [ -d "$toolkit" ] || fail "no CANN: ASCEND_HOME_PATH is $toolkit, which is not a directory"
    bisheng=""
    for candidate in "$toolkit/bin/bisheng" "$toolkit/$(uname -m)-linux/ccec_compiler/bin/bisheng" \
        "$toolkit/compiler/ccec_compiler/bin/bisheng"; do
        if [ -x "$candidate" ]; then bisheng=$candidate; break; fi
    done
    [ -n "$bisheng" ] || fail "no compiler: expected bisheng under ASCEND_HOME_PATH=$toolkit"
    if [ -z "$soc" ]; then
        name=$(timeout 30 npu-smi info 2>/dev/null | grep -oE '910(B[0-9]|_93[0-9]{2})' | head -n 1 || true)
        case "$name" in
            910B*) soc=ascend910b ;;
            910_93*) soc=ascend910_93 ;;
            *) fail "no NPU that npu-smi knows as 910B or 910_93: name the SoC by --soc=ascend910b or --soc=ascend910_93" ;;
        esac
    fi
    case "$soc" in
        ascend910b | ascend910_93) ;;
        *) fail "--soc: expected ascend910b or ascend910_93, got '$soc'" ;;
    esac
fi
command -v cmake > /dev/null || fail "expected cmake on PATH"
cxx=${CXX:-c++}
command -v "${cxx%% *}" > /dev/null || fail "expected a C++ compiler on PATH, got none called ${cxx%% *} (CXX names another)"
need_torch="import torch"
[ $twin = 1 ] || need_torch="$need_torch, importlib.metadata as m; m.version('torch_npu')"
if [ $pkg_only = 0 ]; then
    why=$("$python" -c "$need_torch" 2>&1 > /dev/null) ||
        fail "$python: expected torch$([ $twin = 1 ] || echo ' and torch_npu') in it (set PYTHON to another); \
its import says: ${why##*$'\n'}"
fi

echo "build.sh: for $("$python" -c 'import sys; print(sys.version.split()[0], sys.executable)')"
mkdir -p build dist 2> /dev/null && [ -w build ] && [ -w dist ] ||
    fail "expected folders build and dist in $root that can be made and written to, got: $(ls -ld build dist 2>&1 | tr '\n' ';')"
exec 9< build
if command -v flock > /dev/null; then flock -n 9 || fail "expected no other build in $root, got one that is running"; fi
# A tree that was moved or copied brings a cache that names the old place.
for cache in build/wheels-*/CMakeCache.txt; do
    if [ -f "$cache" ] && ! grep -qxF -e "CMAKE_CACHEFILE_DIR:INTERNAL=$root/${cache%/*}" "$cache"; then
        echo "build.sh: ${cache%/*} was made in another place and is made anew"
        rm -rf "${cache%/*}"
    fi
done
if [ $pkg_only = 0 ]; then
    rm -f dist/cann_bench-*.whl dist/ascend_sparse_attention-*.whl
    if [ $twin = 1 ]; then
        flags=(-DASA_LAUNCH=twin -DASA_TORCH=host "-DASA_TWIN_OUTPUT=$root/build/wheels-twin/framework/twin")
        targets=(cann_bench asa_twin)
        kind=twin
    else
        flags=(-DASA_LAUNCH=cann -DASA_TORCH=npu "-DASA_BISHENG=$bisheng" "-DASA_SOC=$soc")
        targets=(cann_bench asa_torch_npu)
        kind=$soc
    fi
    build="build/wheels-$kind"
    { cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release "-DPython3_EXECUTABLE=$python" "${flags[@]}" &&
        cmake --build "$build" --target "${targets[@]}" -j "$jobs"; } ||
        fail "the build failed; the reason stands above. If an earlier build was cut off, bash build.sh --clean first"
    "$python" framework/packaging/build_wheels.py "$build" dist "$kind"
    # The wheels are what gets installed, so the wheels are what is imported: unpacked, and nothing else of ours on the path.
    "$python" framework/packaging/import_wheels.py dist "$kind"
fi

if [ $twin = 0 ]; then
    rm -f "dist/ascend_sparse_attention_ops_${soc}_$(uname -m).run"
    make_run=(bash framework/packaging/build_operator_package.sh "$toolkit" "$soc" "$jobs" "$python")
    if [ $pkg_only = 1 ]; then
        "${make_run[@]}" || fail "the operator package (.run) was not built; the reason stands above"
    else
        left=$((seconds - SECONDS)) status=0
        if [ $left -gt 0 ]; then timeout "$left" "${make_run[@]}" || status=$?; else status=124; fi
        case $status in
            0) why="" ;;
            124) why="$seconds s are over: the operator package (.run) was left out. bash build.sh --pkg builds it" ;;
            *) why="the operator package (.run) was not built; the reason stands above. The wheels do not need it" ;;
        esac
        [ -z "$why" ] || echo "build.sh: $why" >&2
    fi
fi
echo "build.sh: done"
ls -1 dist
