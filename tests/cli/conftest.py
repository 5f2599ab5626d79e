# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys

import pytest
from ascend_sparse_attention.cli.app import main


@pytest.fixture
def sfa(monkeypatch, capsys, tmp_path):
    """Run `sfa` in this process, in a folder of the test's own; returns (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["sfa", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        return end.value.code, out, err

    return call
