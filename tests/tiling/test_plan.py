# SPDX-License-Identifier: Apache-2.0
"""Properties of every plan: buffers fit, all work is done exactly once and evenly, the workspace is bounded."""

from __future__ import annotations

import math
import random

import pytest
import torch
from ascend_sparse_attention import twin

SHAPES = 1500
PLATFORMS = ("Ascend910B1", "Ascend910B2", "Ascend910B3", "Ascend910B4", "Ascend910_9391", "Ascend910_9362")
LOAD_LIMIT = 15  # what a cross-core flag's counter holds


def tensor(shape, stride=None, dtype=torch.float16):
    """A tensor of that shape and stride that owns next to no memory: the planner reads descriptions only."""
    if stride is None:
        stride = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    return torch.empty(0, dtype=dtype, device="meta").as_strided(shape, stride)


def request(p, **options):
    bsnd = p["layout"] == "BSND"

    def shape(s, n, d):
        return [p["B"], s, n, d] if bsnd else [p["B"], n, s, d]

    dtype = p.get("dtype", torch.float16)
    query = tensor(shape(p["S1"], p["N1"], p["Dk"]), dtype=dtype)
    key = tensor(shape(p["S2"], p["N2"], p["Dk"]), dtype=dtype)
    value = tensor(shape(p["S2"], p["N2"], p["Dv"]), dtype=dtype)
    index = tensor(shape(p["S1"], p["N2"], p["topK"]), dtype=torch.int32)
    options.setdefault("value_is_key_prefix", p["prefix"])
    return twin.request_of(query, key, value, index, 0.1, p["layout"], p["causal"], **options)


def draw(rng):
    """A legal problem, each size often at a corner of its range."""

    def pick(low, high, corners=()):
        kind = rng.random()
        if kind < 0.25:
            return min(high, rng.choice((low, high, *corners)))
        if kind < 0.6:
            return min(high, low + int(rng.expovariate(8 / max(high - low, 1))))
        return rng.randint(low, high)

    n2 = pick(1, 64, (8,))
    g = pick(1, 256 // n2, (4, 5, 12))
    dk = 64 * pick(1, 9, (2, 3, 8))
    s2 = pick(1, 16384, (16, 129, 4096))
    s1 = pick(1, 2048, (2, 4))
    causal = rng.random() < 0.5 and s1 <= s2
    return dict(
        B=pick(1, 64, (16, 32)),
        S1=s1,
        S2=s2,
        N1=n2 * g,
        N2=n2,
        Dk=dk,
        Dv=64 * rng.randint(1, dk // 64) if rng.random() < 0.5 else dk,
        topK=min(s2, pick(1, 2048, (16, 64, 127, 128, 129, 512, 1024))),
        layout=rng.choice(("BSND", "BNSD")),
        causal=causal,
        prefix=rng.random() < 0.5,
    )


CORNERS = [
    dict(B=64, S1=2048, S2=16384, N1=256, N2=64, Dk=576, Dv=576, topK=2048, layout="BSND", causal=True, prefix=False),
    dict(B=64, S1=2048, S2=16384, N1=256, N2=1, Dk=576, Dv=512, topK=2048, layout="BNSD", causal=False, prefix=True),
    dict(B=1, S1=1, S2=1, N1=1, N2=1, Dk=64, Dv=64, topK=1, layout="BSND", causal=True, prefix=True),
    dict(B=1, S1=1, S2=16384, N1=128, N2=1, Dk=576, Dv=512, topK=2048, layout="BSND", causal=False, prefix=True),
    dict(B=64, S1=1, S2=64, N1=64, N2=64, Dk=64, Dv=64, topK=64, layout="BNSD", causal=False, prefix=False),
]


def check_plan(p, plan, limits, cores):
    t = plan.fields
    tasks = p["B"] * p["S1"] * p["N2"]
    g = p["N1"] // p["N2"]
    assert 1 <= plan.core_num <= cores
    assert plan.core_num == t["coreNum"]
    assert t["tasks"] == tasks

    # Buffers: the plan's own total adds up, and fits.
    ub, l1 = t["ub"], t["l1"]
    twice = ("indexList", "indexMask", "gatherTile", "scores", "rowBlock")
    assert (
        ub["total"] == ub["rawIndex"] + 2 * sum(ub[n] for n in twice) + ub["probs"] + ub["reduce"] + 5 * ub["rowStat"]
    )
    assert ub["total"] <= limits["ub"], ub
    assert all(size % 32 == 0 for size in ub.values()), ub
    assert l1["total"] == l1["querySlots"] * l1["query"] + 3 * l1["kv"] + l1["probs"]
    assert l1["total"] <= limits["l1"], l1
    assert all(l1[name] % 32 == 0 for name in ("query", "kv", "probs"))
    rows_needed = min(128, 16 * -(-max(t["headsPerPart"], g if t["fullTasks"] else 1) // 16))
    assert l1["query"] >= rows_needed * t["dk"] * 2
    assert l1["kv"] >= 128 * max(t["dk"] // t["keyPieces"], t["valueGroup"]) * 2

    # The combine: statistics, outputs and casts of all parts of its rows.
    rows, parts = t["combineRows"], t["keyParts"]
    assert 1 <= rows <= g
    assert (2 * parts + 3) * rows * 32 + (parts * 4 + 2) * rows * t["dv"] <= limits["ub"]

    # One instruction's limits.
    assert t["dk"] % t["keyPieces"] == 0
    piece = t["dk"] // t["keyPieces"]
    assert t["keyStep"] % 16 == 0 and t["keyStep"] <= 128 and piece % t["keyStep"] == 0
    assert t["valueGroup"] % 64 == 0 and t["valueGroup"] <= 256
    assert t["rowPitch"] % 64 == 0
    assert 0 < t["stepRows"] * t["rowPitch"] // 64 <= 255 and t["stepRows"] <= 255
    assert ub["scores"] >= t["stepRows"] * t["rowPitch"] * 4 and ub["probs"] >= t["stepRows"] * t["rowPitch"] * 2
    assert ub["gatherTile"] >= t["gatherRows"] * t["ringRow"] * 2 and t["gatherRows"] % 2 == 0 and t["gatherRows"] >= 2
    keys = t["keysPerPart"] if t["keyParts"] > 1 else t["topK"]
    assert t["ringRows"] >= keys and t["rowPitch"] >= keys

    # Flags: the counter of gathered units cannot overflow.
    blocks = math.ceil(keys / 128)
    units = max(math.ceil(t["tasksPerItem"] / t["unitTasks"]), math.ceil(blocks / t["unitBlocks"]))
    assert 2 * units <= LOAD_LIMIT and t["ringSlots"] <= LOAD_LIMIT

    # Workspace.
    ring_task = t["ringRows"] * t["ringRow"] + (g * t["dk"] if t["queryViaRing"] else 0)
    assert t["ringSlotBytes"] >= t["tasksPerItem"] * ring_task * 2
    assert t["scoresSlotBytes"] >= t["itemRows"] * t["rowPitch"] * 4
    assert t["probsSlotBytes"] >= t["itemRows"] * t["rowPitch"] * 2
    assert t["scoresOffset"] >= t["ringSlots"] * t["ringSlotBytes"]
    assert t["probsOffset"] >= t["scoresOffset"] + 2 * t["scoresSlotBytes"]
    assert t["coreStride"] >= t["probsOffset"] + 2 * t["probsSlotBytes"]
    for name in ("coreStride", "ringSlotBytes", "scoresOffset", "scoresSlotBytes", "probsOffset", "probsSlotBytes"):
        assert t[name] % 512 == 0, name
    partial = (tasks - t["fullTasks"]) * t["keyParts"] * g * (t["dv"] + 16) * 4 if t["keyParts"] > 1 else 0
    assert plan.workspace_bytes >= plan.core_num * t["coreStride"] + partial
    assert plan.workspace_bytes <= plan.core_num * t["coreStride"] + partial + 512
    # 3 slots of at most 2048 rows of 1152 elements, or two; scores and probabilities of 256 rows of 2048.
    assert plan.workspace_bytes <= plan.core_num * (2 * 2048 * 1152 * 2 + 12 * 2**20) + partial + 512


def check_work(p, plan):
    """Every (task, head, index slot) belongs to exactly one item, and no core has much more than another."""
    t = plan.fields
    g = p["N1"] // p["N2"]
    loads = []
    whole = []  # [begin, end) of tasks done whole
    parts = {}  # task -> [(heads, keys)]
    numbers = set()
    for core in range(plan.core_num):
        load = 0
        for item in plan.items(core):
            heads = range(item["head_begin"], item["head_begin"] + item["heads"])
            slots = range(item["key_begin"], item["key_begin"] + item["keys"])
            assert item["heads"] > 0 and item["keys"] > 0 and item["tasks"] > 0
            assert heads.stop <= g and slots.stop <= p["topK"]
            assert item["tasks"] * item["heads"] <= t["itemRows"]
            load += item["tasks"] * item["heads"] * item["keys"]
            if len(heads) == g and len(slots) == p["topK"]:
                whole.append((item["task"], item["task"] + item["tasks"]))
            else:
                assert item["tasks"] == 1
                parts.setdefault(item["task"], []).append((heads, slots))
                if t["keyParts"] > 1:
                    numbers.add((item["part"], item["head_begin"]))
        loads.append(load)
    expected = 0
    for begin, end in sorted(whole):
        while expected in parts:
            expected += 1
        assert begin == expected, "a task is done twice or not at all"
        expected = end
    while expected in parts:
        expected += 1
    assert expected == t["tasks"]
    for task, pieces in parts.items():
        cells = set()
        for heads, slots in pieces:
            cells |= {(h.start, s.start) for h in (heads,) for s in (slots,)}
        assert len(cells) == len(pieces), f"task {task}: a part twice"
        assert sum(len(h) * len(s) for h, s in pieces) == g * p["topK"], f"task {task}: parts do not add up"
    if t["keyParts"] > 1:
        assert len(numbers) == sum(len(pieces) for pieces in parts.values()), "partial results collide"
    assert min(loads) > 0, "a core without work was launched"
    # No core is more than one item ahead of another.
    assert max(loads) - min(loads) <= max(g * p["topK"], 1)


def test_random_problems():
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for number in range(SHAPES):
        p = CORNERS[number] if number < len(CORNERS) else draw(rng)
        platform = rng.choice(PLATFORMS)
        limits = twin.platform_limits(platform)
        cores = rng.choice((0, 0, 0, 1, 3))
        schedule = rng.choice((None, None, "gather", "gather_split_k" if p["topK"] > 128 else None))
        plan = twin.Plan(request(p, platform=platform, cores=cores, schedule=schedule))
        try:
            check_plan(p, plan, limits, min(cores, limits["aic"]) or limits["aic"])
            if schedule is not None:
                assert twin.SCHEDULES[plan.fields["schedule"]] == schedule
            if plan.fields["tasks"] <= 20000:
                check_work(p, plan)
        except AssertionError as error:
            raise AssertionError(f"{p} on {platform}, cores {cores}, schedule {schedule}: {error}") from error


@pytest.mark.parametrize("layout", ["BSND", "BNSD"])
def test_tasks_lie_in_the_order_of_the_indices(layout):
    p = dict(B=3, S1=5, S2=64, N1=8, N2=4, Dk=64, Dv=64, topK=8, layout=layout, causal=False, prefix=True)
    plan = twin.Plan(request(p))
    shape = (3, 5, 4) if layout == "BSND" else (3, 4, 5)
    for task, (b, x, y) in enumerate((b, x, y) for b in range(3) for x in range(shape[1]) for y in range(shape[2])):
        assert plan.locate(task) == ((b, x, y) if layout == "BSND" else (b, y, x))


def test_empty_problems_launch_nothing():
    for sizes in (dict(B=0, S1=4), dict(B=2, S1=0)):
        p = dict(S2=64, N1=8, N2=4, Dk=64, Dv=64, topK=8, layout="BSND", causal=False, prefix=True, **sizes)
        plan = twin.Plan(request(p))
        assert plan.core_num == 0 and plan.workspace_bytes == 0


def test_leftover_tasks_are_shared_out_by_heads():
    """128 tasks of 128 heads on 24 cores: five whole rounds, then eight tasks in thirds."""
    p = dict(B=1, S1=128, S2=2048, N1=128, N2=1, Dk=576, Dv=512, topK=512, layout="BSND", causal=True, prefix=True)
    plan = twin.Plan(request(p))
    assert plan.fields["fullTasks"] == 120
    assert plan.fields["headParts"] == 3
    loads = [sum(item["heads"] for item in plan.items(core)) for core in range(24)]
    assert max(loads) <= 5 * 128 + 48


def test_one_long_task_uses_many_cores():
    p = dict(B=1, S1=1, S2=16384, N1=128, N2=1, Dk=576, Dv=512, topK=2048, layout="BSND", causal=False, prefix=True)
    plan = twin.Plan(request(p))
    assert twin.SCHEDULES[plan.fields["schedule"]] == "gather_split_k"
    assert plan.core_num >= 12


def test_offsets_beyond_32_bits():
    p = dict(B=64, S1=4, S2=16384, N1=64, N2=64, Dk=576, Dv=512, topK=64, layout="BNSD", causal=False, prefix=False)
    fields = twin.Plan(request(p)).fields
    assert fields["key"] == [64 * 16384 * 576, 576, 16384 * 576]
    assert fields["value"][0] == 64 * 16384 * 512


def test_strides_a_copy_cannot_express():
    """Rows too far apart for a strided copy, or overlapping, are copied one by one; so are query rows."""
    far, near = 2**31, 64
    for stride, pairs in ((far, 0), (near, 1), (0, 0)):
        key = tensor([1, 4, 1, 64], [4 * far, stride, 64, 1])
        query = tensor([1, 1, 4, 64])
        index = tensor([1, 1, 1, 4], dtype=torch.int32)
        fields = twin.Plan(twin.request_of(query, key, key, index, 1.0)).fields
        assert fields["pairKeys"] == pairs, stride
    query = tensor([1, 32, 2, 64], [0, 2**32, 64, 1])
    key = tensor([1, 1, 4, 64])
    index = tensor([1, 1, 2, 4], dtype=torch.int32)
    fields = twin.Plan(twin.request_of(query, key, key, index, 1.0, "BNSD")).fields
    assert fields["queryViaRing"] == 1 and fields["blockQuery"] == 0


def test_unknown_platform_and_schedule():
    p = CORNERS[2]
    with pytest.raises(ValueError, match=r"^platform: expected one of Ascend910B1, .*, got Ascend310P$"):
        twin.Plan(request(p, platform="Ascend310P"))
    with pytest.raises(ValueError, match=r"^schedule: expected gather or gather_split_k, got dense$"):
        twin.Plan(request(p, schedule="dense"))
    with pytest.raises(ValueError, match=r"^schedule: expected topK > 128 for gather_split_k, got 1$"):
        twin.Plan(request(p, schedule="gather_split_k"))
