// SPDX-License-Identifier: Apache-2.0
#include "harness.h"

#include <cstdio>
#include <stdexcept>

namespace checker_test {

std::vector<Case>& Cases() {
    static std::vector<Case> cases;
    return cases;
}

void Fail(const std::string& text) { throw std::runtime_error(text); }

Report Run(KernelType type, uint32_t blocks, const std::vector<Tensor>& tensors, const std::function<void()>& kernel,
           const Options& options) {
    return LaunchErased(kernel, "test", blocks, type, tensors, options);
}

void ExpectClean(const Report& report) {
    if (!report.ok()) Fail("expected no finding, got\n" + report.Text());
}

namespace {
void ExpectWords(const Finding& finding, const std::vector<std::string>& words) {
    for (const std::string& word : words) {
        if (finding.message.find(word) == std::string::npos) Fail("expected '" + word + "' in\n" + finding.message);
    }
}
}  // namespace

uint32_t marked[3];

namespace {
void ExpectOneAt(const Report& report, Rule rule, uint32_t line, const std::vector<std::string>& words) {
    if (report.findings.size() != 1) Fail("expected one finding, got " + std::to_string(report.findings.size()) + "\n" + report.Text());
    const Finding& f = report.findings[0];
    if (f.rule != rule) Fail(std::string("expected rule ") + RuleName(rule) + ", got\n" + f.message);
    if (f.line != line) Fail("expected line " + std::to_string(line) + ", got " + std::to_string(f.line) + "\n" + f.message);
    if (f.message.find("\n  help: ") == std::string::npos) Fail("no advice in\n" + f.message);
    ExpectWords(f, words);
}

}  // namespace

void ExpectOne(const Report& report, Rule rule, const std::vector<std::string>& words) { ExpectOneAt(report, rule, marked[1], words); }

void ExpectRace(const Report& report, const std::vector<std::string>& words) {
    ExpectOneAt(report, Rule::Race, marked[2], words);
    const Finding& f = report.findings[0];
    if (f.otherLine != marked[1]) Fail("expected the other line to be " + std::to_string(marked[1]) + ", got\n" + f.message);
}

void ExpectSome(const Report& report, Rule rule) {
    for (const Finding& f : report.findings) {
        if (f.rule == rule && f.line == marked[1]) return;
    }
    Fail(std::string("expected a finding of rule ") + RuleName(rule) + " at line " + std::to_string(marked[1]) + ", got\n" + report.Text());
}

}  // namespace checker_test

int main(int argc, char** argv) {
    using namespace checker_test;
    const std::string command = argc > 1 ? argv[1] : "";
    if (command == "--list" && argc == 2) {
        for (const Case& c : Cases()) std::printf("%s\n", c.name);
        return 0;
    }
    if (command == "--run" && argc == 3) {
        for (const Case& c : Cases()) {
            if (std::string(argv[2]) != c.name) continue;
            try {
                c.run();
            } catch (const std::exception& error) {
                std::fprintf(stderr, "%s: %s\n", c.name, error.what());
                return 1;
            }
            return 0;
        }
        std::fprintf(stderr, "no case is called %s\n", argv[2]);
        return 2;
    }
    std::fprintf(stderr, "usage: %s --list | --run NAME\n", argv[0]);
    return 2;
}
