# SPDX-License-Identifier: Apache-2.0
"""What the API layer must not let through the compiler: calls that are not modelled, types the hardware lacks.

Each case is the body of a kernel. The control cases beside them compile, so that a broken include cannot pass for a
refusal.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

INCLUDE = Path(__file__).resolve().parents[3] / "cpu_twin" / "include"
CXX = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++") or "c++"

DECLARATIONS = """
#include "kernel_operator.h"
using namespace AscendC;
static LocalTensor<half> h0, h1, h2;
static LocalTensor<bfloat16_t> b0, b1, b2;
static LocalTensor<float> f0, f1, f2;
static LocalTensor<int32_t> i0, i1, i2;
static LocalTensor<uint32_t> u0, u1;
static LocalTensor<uint8_t> m0;
static GlobalTensor<half> gh;
static GlobalTensor<float> gf;
void kernel(TPipe& pipe)
{
    (void)pipe;
%s
}
"""


@pytest.fixture(scope="module")
def precompiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the header precompiled, which every case below finds first."""
    directory = tmp_path_factory.mktemp("precompiled")
    source, target = INCLUDE / "kernel_operator.h", directory / "kernel_operator.h.gch"
    command = [CXX, "-std=c++17", f"-I{INCLUDE}", "-x", "c++-header", str(source), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return directory


def compile_body(body: str, precompiled: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    source = tmp_path / "kernel.cpp"
    source.write_text(DECLARATIONS % body)
    command = [CXX, "-std=c++17", "-fsyntax-only", f"-I{precompiled}", f"-I{INCLUDE}", str(source)]
    english = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=english)


ACCEPTED = {
    "arithmetic in the three forms": """
        uint64_t bits[2] = {1, 0};
        Add(f0, f1, f2, bits, 1, {1, 1, 1, 8, 8, 8});
        Add(f0, f1, f2, uint64_t(64), 1, {1, 1, 1, 8, 8, 8});
        Add(f0, f1, f2, 64);
        Add<float, false>(f0, f1, f2, MASK_PLACEHOLDER, 1, {1, 1, 1, 8, 8, 8});
        Muls(h0, h1, half(2.0f), 128);
        Exp(f0, f1, 64);
        Axpy(f0, h0, half(1.0f), 64);
        Duplicate(b0, bfloat16_t(0.0f), 128);
    """,
    "casts": """
        Cast(h0, f0, RoundMode::CAST_ODD, 64);
        Cast(b0, f0, RoundMode::CAST_RINT, 64);
        Cast(f0, b0, RoundMode::CAST_NONE, uint64_t(64), 1, {1, 1, 8, 4});
        Cast(i0, f0, RoundMode::CAST_FLOOR, 64);
    """,
    "copies": """
        DataCopy(f0, gf, 64);
        DataCopy(f0, gf[8], {2, 4, 0, 0});
        DataCopy(h0, gh, Nd2NzParams{1, 16, 16, 0, 16, 16, 1, 0});
        DataCopyPad(f0, gf, {1, 20, 0, 0, 0}, DataCopyPadExtParams<float>{true, 0, 3, 0.0f});
        DataCopyPad(gf, f0, {1, 20, 0, 0, 0});
    """,
    "cube": """
        LoadData(h0, h1, LoadData2DParams{});
        LoadData(h0, h1, LoadData3DParamsV2<half>{});
        LoadDataWithTranspose(h0, h1, LoadData2dTransposeParams{});
        Mmad(f0, h0, h1, MmadParams{16, 16, 16, 0, false, true});
        Fixpipe<half, float, CFG_ROW_MAJOR>(gh, f0, FixpipeParamsV220{});
        Fill(h0, InitConstValueParams<half>(1, 1, 0, half(0.0f)));
    """,
    "compare, select, reduce": """
        Compares(m0, f0, 1.0f, CMPMODE::LT, 64);
        Select(f0, m0, f1, -1.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);
        Select(f0, m0, f1, f2, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64);
        WholeReduceMax(f0, f1, 64, 1, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);
        BlockReduceSum(f0, f1, 1, 64, 1, 1, 8);
        ReduceRepeat<ReduceType::SUM>(f0, f1, 64, 1, 1, 1, 8);
        ReduceMax(f0, f1, f2, 100, true);
    """,
    "synchronisation": """
        SetFlag<HardEvent::MTE2_V>(0);
        WaitFlag<HardEvent::MTE2_V>(0);
        PipeBarrier<PIPE_V>();
        CrossCoreSetFlag<2, PIPE_MTE3>(3);
        CrossCoreWaitFlag(3);
        SyncAll();
        SyncAll<false>();
    """,
}

# body, and what the compiler has to say
REFUSED = {
    "Scatter": ("Scatter(f0, f1, u0, 0, 64);", "'Scatter' was not declared"),
    "the high-level matmul": ("matmul::Matmul<float, float, float> mm;", "'matmul' (has not been|was not) declared"),
    "enhanced copies": ("DataCopy(f0, f1, DataCopyParams{}, DataCopyEnhancedParams{});", "DataCopyEnhancedParams"),
    "image to column, first version": ("LoadData(h0, h1, LoadData3DParamsV1<half>{});", "LoadData3DParamsV1"),
    "fixpipe with a tensor of scales": (
        "LocalTensor<uint64_t> s; Fixpipe<half, int32_t, CFG_NZ>(gh, i0, s, FixpipeParamsV220{});",
        "no matching function for call to 'Fixpipe",
    ),
    "column-major fixpipe": (
        "Fixpipe<float, float, CFG_COLUMN_MAJOR>(gf, f0, FixpipeParamsV220{});",
        "'CFG_COLUMN_MAJOR' was not declared",
    ),
    "double": ("LocalTensor<double> d;", "the twin models"),
    "arithmetic on bfloat16": ("Add(b0, b1, b2, 128);", "vadd does not take this type"),
    "exponential of an integer": ("Exp(i0, i1, 64);", "vexp does not take this type"),
    "division of integers": ("Div(i0, i1, i2, 64);", "vdiv does not take this type"),
    "two types in one addition": ("Add(f0, f1, h0, 64);", "no matching function for call to 'Add"),
    "an int for a half scalar": ("Muls(h0, h1, 2, 128);", "no matching function for call to 'Muls"),
    "a double for a float scalar": ("Adds(f0, f1, 0.5, 64);", "no matching function for call to 'Adds"),
    "cast of uint32": ("Cast(f0, u0, RoundMode::CAST_NONE, 64);", "has no conversion between these types"),
    "cast from half to bfloat16": ("Cast(b0, h0, RoundMode::CAST_NONE, 64);", "has no conversion between these types"),
    "maximum over integers": ("WholeReduceMax(i0, i1, 64, 1, 1, 1, 8);", "vcmax takes half or float"),
    "a reduction that widens": (
        "ReduceDataBlock<ReduceType::SUM>(f0, h0, 64, 1, 1, 1, 8);",
        "one type for source and result",
    ),
    "compare into floats": ("Compares(f0, f1, 1.0f, CMPMODE::LT, 64);", "tensor of int8_t or uint8_t"),
    "select by a float mask": (
        "Select(f0, f1, f2, 1.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, 64);",
        "the mask is a tensor of",
    ),
    "gather by signed offsets": ("Gather(f0, f1, i0, 0, 64);", "no matching function for call to 'Gather"),
    "sort of integers": ("Sort32(i0, i1, u0, 1);", "Sort32 takes half and float"),
    "cube into half": ("Mmad(h0, h1, h2, MmadParams{});", "Mmad: float = half"),
    "cube on two types": ("Mmad(f0, h0, b0, MmadParams{});", "both operands must have one type"),
    "fixpipe from half": ("Fixpipe<float, half>(gf, h0, FixpipeParamsV220{});", "Fixpipe: float goes to"),
    "fixpipe to L1 in rows": ("Fixpipe<half, float>(h0, f0, FixpipeParamsV220{});", "writes NZ only"),
    "image to column with another padding type": (
        "LoadData(h0, h1, LoadData3DParamsV2<float>{});",
        "no matching function for call to 'LoadData",
    ),
    "padded copy without pad parameters": (
        "DataCopyPad(f0, gf, DataCopyExtParams{1, 20, 0, 0, 0});",
        "no matching function for call to 'DataCopyPad",
    ),
    "too few repeat parameters": ("Exp(f0, f1, uint64_t(64), 1, {1, 1});", "no matching function for call to 'Exp"),
    "a queue on VECCALC": ("TQue<TPosition::VECCALC, 1> q;", "no queue has this position"),
    "a queue without a data path": ("TQueBind<TPosition::VECIN, TPosition::CO1, 1> q;", "has no such data path"),
    "a TBuf with several buffers": (
        "TBuf<TPosition::VECCALC> t; pipe.InitBuffer(t, 2, 64);",
        "TBuf takes InitBuffer",
    ),
    "cross-core mode 4": ("CrossCoreSetFlag<4, PIPE_FIX>(0);", "has modes 0, 1 and 2"),
    "a barrier on the scalar unit": ("PipeBarrier<PIPE_S>();", "has no barrier"),
    "atomic add of uint8": ("SetAtomicAdd<uint8_t>();", "atomic copies take"),
    "copying a TPipe": ("TPipe other = pipe;", "use of deleted function"),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_documented_calls_compile(name: str, precompiled: Path, tmp_path: Path) -> None:
    result = compile_body(ACCEPTED[name], precompiled, tmp_path)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", REFUSED)
def test_unmodelled_calls_do_not_compile(name: str, precompiled: Path, tmp_path: Path) -> None:
    body, message = REFUSED[name]
    result = compile_body(body, precompiled, tmp_path)
    assert result.returncode != 0, f"compiled: {body}"
    assert re.search(message, result.stderr), result.stderr
