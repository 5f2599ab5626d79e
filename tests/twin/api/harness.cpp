// SPDX-License-Identifier: Apache-2.0
#include "harness.h"

#include <cstring>

namespace api_test {

namespace {
int failures = 0;
}

std::vector<Case>& Cases()
{
    static std::vector<Case> cases;
    return cases;
}

void Fail(const char* file, int line, const std::string& text)
{
    ++failures;
    std::printf("%s:%d: %s\n", file, line, text.c_str());
}

}    // namespace api_test

// --list prints the names of the cases, --run NAME runs one.
int main(int argc, char** argv)
{
    if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
        for (const api_test::Case& c : api_test::Cases()) {
            std::printf("%s\n", c.name);
        }
        return 0;
    }
    if (argc == 3 && std::strcmp(argv[1], "--run") == 0) {
        for (const api_test::Case& c : api_test::Cases()) {
            if (std::strcmp(c.name, argv[2]) == 0) {
                c.run();
                return api_test::failures == 0 ? 0 : 1;
            }
        }
        std::printf("no case named %s\n", argv[2]);
        return 2;
    }
    std::printf("usage: %s --list | --run CASE\n", argv[0]);
    return 2;
}
