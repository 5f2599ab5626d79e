#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
echo "kernel.cpp:12:5: error: no member named 'Mmad' in namespace 'AscendC'"
exit 2
