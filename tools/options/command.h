// What every subcommand needs to be declared: its body, checks of numbers, the kernels in use.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <sstream>
#include <string>
#include <type_traits>

#include "engine/execute/machine.h"
#include "tools/terminal/standard_output.h"

namespace cria::tools {

/// A number of these bounds; its error says what was expected.
template <typename T>
CLI::Validator range(T low, T high) {
  const auto check = [low, high](const std::string& text) -> std::string {
    T value{};
    if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return "";
    std::ostringstream error;  // numbers in as few digits as they need
    error << "expected a " << (std::is_integral_v<T> ? "whole number" : "number") << " from " << low
          << " to " << high << ", got " << text;
    return error.str();
  };
  return {[check](std::string& text) { return check(text); }, ""};
}

/// A file that is written as a whole: not "-", which stands for stdout elsewhere.
CLI::Validator named_file();

/// Makes `body` what the subcommand does; its result is the exit code.
void on_run(CLI::App* command, std::function<int()> body);

}  // namespace cria::tools
