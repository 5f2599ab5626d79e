// SPDX-License-Identifier: Apache-2.0
// A stack with a program counter: one per core. Switching costs a dozen instructions, so a core can yield at every wait.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>

namespace cpu_twin {

class Fiber {
public:
    Fiber(size_t stackBytes, std::function<void()> entry);
    ~Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    void Resume();      // from the scheduler: run until the fiber yields or its entry returns
    void Yield();       // from inside the fiber: back to the scheduler
    bool Done() const { return done_; }

private:
    static void Trampoline();
    void Run();

    void* stack_ = nullptr;     // lowest mapped byte, guard page included
    size_t mapped_ = 0;
    void* own_ = nullptr;       // saved stack pointer of the fiber, while it is suspended
    void* scheduler_ = nullptr; // saved stack pointer of the scheduler, while the fiber runs
    std::function<void()> entry_;
    bool done_ = false;
    void* fakeStack_ = nullptr;             // AddressSanitizer bookkeeping
    const void* schedulerStack_ = nullptr;
    size_t schedulerStackBytes_ = 0;
};

}  // namespace cpu_twin
