// SPDX-License-Identifier: Apache-2.0
// Replays the recorded instructions as the hardware would run them and asks the clock models what each costs.
//
// Every core has a scalar unit that issues in program order and pipes that work off their queues in order. set_flag and wait_flag
// travel in the queues; waits of the scalar unit, wait_flag_dev and PIPE_ALL barriers stop the issue itself. Events of the whole grid are
// handled in the order of time, so a clock may keep shared state. Cores are executed a piece at a time, so the replay stops at the
// time up to which every core's instructions are known.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core.h"

namespace cpu_twin {

class Replay;

class Timeline {
public:
    explicit Timeline(Machine& machine);
    ~Timeline();
    void Advance();                     // takes over what the cores have recorded and replays as far as it is safe
    std::vector<Timing> Finish();       // replays the rest

private:
    void ForEachReplay(const std::function<void(Replay&)>& run);
    Machine& machine_;
    std::vector<std::unique_ptr<Replay>> replays_;
};

}  // namespace cpu_twin
