/* SPDX-License-Identifier: Apache-2.0 */
/* C interface of checks and tiling, for Python (ctypes) and other callers that cannot include C++. All functions return
 * 0 for success, 1 or 2 for a fault (a TypeError's or a ValueError's message is in `message`), 3 for a misuse. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const char* dtype;   /* as torch names it: "float16" */
    uint32_t rank;
    int64_t shape[8];
    int64_t stride[8];   /* elements */
} asa_tensor;

typedef struct {
    asa_tensor query;
    asa_tensor key;
    asa_tensor value;
    asa_tensor index;
    double scale;
    const char* layout;
    int32_t causal;
    int32_t write_lse;
    int32_t value_is_key_prefix;
    const char* platform;    /* "Ascend910B2" */
    const char* schedule;    /* a schedule's name, or "" for the planner's choice */
    uint32_t core_limit;     /* 0: all cores */
} asa_request;

typedef struct {
    uint32_t core_num;       /* AIC cores to launch; 0: the output is empty */
    uint64_t tiling_key;
    uint64_t workspace_bytes;
} asa_launch;

typedef struct {
    uint32_t task, tasks, head_begin, heads, key_begin, keys, part;
} asa_item;

/* The checks that every caller shares; with npu_limits != 0 also the NPU's table of sizes. */
int asa_check(const asa_request* request, int npu_limits, char* message, size_t capacity);

/* Checks and plans. `tiling` takes asa_tiling_size() bytes. */
int asa_plan(const asa_request* request, void* tiling, size_t size, asa_launch* launch, char* message, size_t capacity);
size_t asa_tiling_size(void);

/* The tiling struct as a JSON object; returns the length needed, the terminating zero not counted. */
size_t asa_tiling_json(const void* tiling, char* text, size_t capacity);

/* The items of a core, as the kernel walks them. */
uint32_t asa_item_count(const void* tiling, uint32_t core);
asa_item asa_item_at(const void* tiling, uint32_t core, uint32_t index);
/* Where a task lies: out[0..2] = b, s1, n2. */
void asa_locate_task(const void* tiling, uint32_t task, uint32_t out[3]);

/* Limits of a platform in bytes, in the order UB, L1, L0A, L0B, L0C; 3 for an unknown name. */
int asa_platform(const char* name, uint32_t* aic_num, uint32_t* aiv_num, uint64_t* l2_bytes, uint32_t limits[5]);

#ifdef __cplusplus
}
#endif
