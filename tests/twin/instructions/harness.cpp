// SPDX-License-Identifier: Apache-2.0
#include "harness.h"

#include <cstdio>

namespace twin_test {

std::vector<Test>& Tests() {
    static std::vector<Test> tests;
    return tests;
}

void OnCore(CoreKind kind, Mem mem, Image& image, const std::function<void()>& body, const std::vector<Tensor>& tensors) {
    Options options;
    options.check = true;
    const Report report = LaunchErased(
        [&] {
            std::memcpy(LocalBase(mem), image.data(), image.size());
            body();
            std::memcpy(image.data(), LocalBase(mem), image.size());
        },
        "test", 1, kind == CoreKind::AIC ? KernelType::AicOnly : KernelType::AivOnly, tensors, options);
    if (!report.ok()) Fail("the checker found:\n", report.Text());
}

}  // namespace twin_test

int main(int argc, char** argv) {
    using namespace twin_test;
    if (argc == 2 && std::string(argv[1]) == "--list") {
        for (const Test& test : Tests()) std::printf("%s\n", test.name);
        return 0;
    }
    if (argc != 3 || std::string(argv[1]) != "--run") {
        std::fprintf(stderr, "usage: %s --list | --run NAME\n", argv[0]);
        return 2;
    }
    for (const Test& test : Tests()) {
        if (std::string(argv[2]) != test.name) continue;
        uint64_t seed = 1469598103934665603ull;
        for (const char* c = test.name; *c; ++c) seed = (seed ^ static_cast<uint8_t>(*c)) * 1099511628211ull;
        Random rng(seed);
        try {
            test.run(rng);
        } catch (const std::exception& error) {
            std::fprintf(stderr, "%s: %s\n", test.name, error.what());
            return 1;
        }
        return 0;
    }
    std::fprintf(stderr, "no test is called %s\n", argv[2]);
    return 2;
}
