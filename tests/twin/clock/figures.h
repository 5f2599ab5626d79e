// SPDX-License-Identifier: Apache-2.0
// Figures that others published about dav-2201, and kernels that do on the twin what was measured.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace twin_figures {

enum class Role {
    Fitted,     // a constant was chosen so that this figure comes out
    Predicted,  // no constant was chosen for it; must come out within 10 %
    Looked,     // stands in the table for comparison: the model is known not to explain it
};

struct Figure {
    const char* name;
    const char* what;
    const char* source;
    const char* unit;
    double published;
    Role role;
    std::function<double()> predict;
};

// Grouped by the file that defines them.
std::vector<Figure> VectorFigures();
std::vector<Figure> CubeFigures();
std::vector<Figure> CopyFigures();
std::vector<Figure> PipelineFigures();

}  // namespace twin_figures
