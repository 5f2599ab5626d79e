#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fake runtime for the torch_npu of PYTHON into OUT: libascendcl.so, and the five libraries beside it that
# torch_npu also wants, empty. Usage: build.sh PYTHON OUT
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$1 out=$2
export TORCH_DEVICE_BACKEND_AUTOLOAD=0
package=$("$python" -c 'import importlib.util as u; print(u.find_spec("torch_npu").submodule_search_locations[0])')
mkdir -p "$out"
g++ -std=c++17 -O2 -fPIC -Wall -Wextra -Wno-deprecated-declarations -fvisibility=hidden -isystem "$package/include" \
    -c "$here/fake_acl.cpp" -o "$out/fake_acl.o"
"$python" "$here/generate_stubs.py" "$out/stubs.c" "$out/fake_acl.o" -- "$package"/lib/libtorch_npu.so \
    "$package"/lib/libnpu_profiler.so "$package"/lib/libtensorpipe.so "$package"/_C.*.so
gcc -O1 -fPIC -c "$out/stubs.c" -o "$out/stubs.o"
g++ -shared -o "$out/libascendcl.so" "$out/fake_acl.o" "$out/stubs.o" -Wl,-soname,libascendcl.so -pthread
for name in hccl acl_op_compiler ge_runner graph acl_tdt_channel; do
    # torch_npu also looks functions up in these by dlsym, which follows what they need.
    gcc -shared -o "$out/lib$name.so" -x c /dev/null -Wl,-soname,"lib$name.so" -Wl,--no-as-needed -L"$out" -lascendcl \
        -Wl,-rpath,'$ORIGIN'
done
