# SPDX-License-Identifier: Apache-2.0
"""The precision harness: case files, input generation, streaming comparison, verdicts and reports.

`docs/precision.md` says how to read a verdict. The command line over it is `sfa` (`ascend_sparse_attention.cli`).
"""
