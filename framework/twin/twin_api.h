/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the sparse_flash_attention kernel in the CPU twin: plans the launch as on a device, fills output and workspace with
 * NaN bytes, runs every core, and tells what the checker found and what the cycle model predicts. Pointers are plain host
 * memory. Times are predictions of a model, never measurements. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "../../op_host/tiling/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Changes with every change of a struct or a function here or in c_api.h, so that a caller can refuse a stale library. */
#define ASA_ABI_VERSION 1
uint32_t asa_abi_version(void);

typedef struct {
    int32_t check;            /* races, flags, bounds; GM bounds are checked in any case */
    uint64_t seed;            /* permutes the order in which cores run; 0 keeps index order */
    int32_t threads;          /* blocks are spread over this many threads */
    int32_t predict;          /* time the run under the cycle model's three outlooks */
    int32_t trace;            /* keep a trace of the expected outlook */
    int32_t operator_entry;   /* CANN's entry (tiling in GM) instead of the direct launch's */
    const char* drop_sync;    /* key of a sync call to leave out, "" for none */
} asa_twin_options;

typedef struct {
    void* query;
    void* key;
    void* value;
    void* index;
    void* output;             /* contiguous, in the request's layout; NaN until the kernel writes it */
    float* lse;               /* may be null unless the request asks for it */
} asa_twin_tensors;

typedef struct asa_twin_result asa_twin_result;

/* 0 and a result to free; 1, 2: a fault of the arguments (as asa_plan); 3: the run failed, `message` says why. Findings of
 * the checker are no failure: they are in the result. */
int asa_twin_run(const asa_request* request, const asa_twin_options* options, const asa_twin_tensors* tensors,
                 asa_twin_result** result, char* message, size_t capacity);

/* {"findings": [{"rule", "message", "file", "line", "count"}], "findings_dropped", "predicted_us": {outlook: us},
 *  "report", "schedule", "core_num", "workspace_bytes", "instructions", "seconds", "sync_sites": [{"key", "calls"}]} */
const char* asa_twin_json(const asa_twin_result* result);
/* Chrome trace event JSON (Perfetto opens it), "" if none was asked for. */
const char* asa_twin_trace(const asa_twin_result* result);
void asa_twin_free(asa_twin_result* result);

#ifdef __cplusplus
}
#endif
