// SPDX-License-Identifier: Apache-2.0
#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define CPU_TWIN_ASAN 1
extern "C" {
void __sanitizer_start_switch_fiber(void** fakeStackSave, const void* bottom, size_t size);
void __sanitizer_finish_switch_fiber(void* fakeStackSave, const void** bottomOld, size_t* sizeOld);
}
#endif

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "fiber.cpp: context switch is written for x86-64 and aarch64"
#endif

extern "C" void cpu_twin_switch(void** save, void* load);

// Callee-saved registers and the floating point control words go onto the stack that is left; the one entered pops its own.
#if defined(__x86_64__)
asm(R"(
    .text
    .globl cpu_twin_switch
    .hidden cpu_twin_switch
    .type cpu_twin_switch, @function
cpu_twin_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    subq $8, %rsp
    stmxcsr (%rsp)
    fnstcw 4(%rsp)
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    ldmxcsr (%rsp)
    fldcw 4(%rsp)
    addq $8, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size cpu_twin_switch, .-cpu_twin_switch
)");
#else
asm(R"(
    .text
    .globl cpu_twin_switch
    .hidden cpu_twin_switch
    .type cpu_twin_switch, %function
cpu_twin_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size cpu_twin_switch, .-cpu_twin_switch
)");
#endif

namespace cpu_twin {
namespace {
thread_local Fiber* tEntering = nullptr;
}

Fiber::Fiber(size_t stackBytes, std::function<void()> entry) : entry_(std::move(entry)) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = (stackBytes + page - 1) / page * page + page;
    stack_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack_ == MAP_FAILED) throw std::bad_alloc();
    mprotect(stack_, page, PROT_NONE);  // overflow faults here instead of running into another mapping

    auto* top = reinterpret_cast<uint64_t*>(static_cast<uint8_t*>(stack_) + mapped_);
#if defined(__x86_64__)
    *--top = 0;  // keeps the entry's frame aligned as a call would leave it, and ends frame-pointer walks
    *--top = reinterpret_cast<uint64_t>(&Fiber::Trampoline);
    for (int i = 0; i < 6; ++i) *--top = 0;
    uint32_t mxcsr = 0;
    uint16_t fcw = 0;
    asm volatile("stmxcsr %0" : "=m"(mxcsr));
    asm volatile("fnstcw %0" : "=m"(fcw));
    *--top = static_cast<uint64_t>(mxcsr) | (static_cast<uint64_t>(fcw) << 32);
#else
    top -= 20;
    for (int i = 0; i < 20; ++i) top[i] = 0;
    top[11] = reinterpret_cast<uint64_t>(&Fiber::Trampoline);
#endif
    own_ = top;
}

Fiber::~Fiber() {
    if (stack_ != nullptr && stack_ != MAP_FAILED) munmap(stack_, mapped_);
}

void Fiber::Trampoline() {
    Fiber* self = tEntering;
    self->Run();
    std::abort();  // a finished fiber is never resumed
}

void Fiber::Run() {
#ifdef CPU_TWIN_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &schedulerStack_, &schedulerStackBytes_);
#endif
    entry_();
    done_ = true;
#ifdef CPU_TWIN_ASAN
    __sanitizer_start_switch_fiber(nullptr, schedulerStack_, schedulerStackBytes_);
#endif
    cpu_twin_switch(&own_, scheduler_);
}

void Fiber::Resume() {
    tEntering = this;
#ifdef CPU_TWIN_ASAN
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, stack_, mapped_);
#endif
    cpu_twin_switch(&scheduler_, own_);
#ifdef CPU_TWIN_ASAN
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void Fiber::Yield() {
#ifdef CPU_TWIN_ASAN
    __sanitizer_start_switch_fiber(&fakeStack_, schedulerStack_, schedulerStackBytes_);
#endif
    cpu_twin_switch(&own_, scheduler_);
#ifdef CPU_TWIN_ASAN
    __sanitizer_finish_switch_fiber(fakeStack_, &schedulerStack_, &schedulerStackBytes_);
#endif
}

}  // namespace cpu_twin
