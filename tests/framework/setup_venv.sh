#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up .venv-npu: the real torch_npu, and under .venv-npu/fake_acl the fake runtime it runs on here. Quick when
# nothing has changed. The environment is its own because torch_npu, once installed, is loaded by every `import torch`.
set -euo pipefail
unset CDPATH
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
venv="$root/.venv-npu"
python=${PYTHON:-python3}

packages=(torch==2.13.0 torch_npu==2.13.0 numpy pyyaml 'setuptools>=77' 'pytest>=8' 'pytest-timeout>=2.3' 'hypothesis>=6')
stamp=$({ printf '%s\n' "${packages[@]}"; cat "${BASH_SOURCE[0]}" "$here"/fake_acl/*; } | sha256sum)
if [ -x "$venv/bin/python" ] && [ "$(cat "$venv/stamp" 2>/dev/null)" = "$stamp" ]; then
    exit 0
fi
rm -f "$venv/stamp"
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
TORCH_DEVICE_BACKEND_AUTOLOAD=0 "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${packages[@]}"
bash "$here/fake_acl/build.sh" "$venv/bin/python" "$venv/fake_acl"
echo "$stamp" > "$venv/stamp"
