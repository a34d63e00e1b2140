// Types of tensors under a budget of bytes, and the text file of such a plan.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/quantize/plan.h"

namespace cria {

/// Returns the index of a type for each tensor: the least sum of damages whose bytes are at most
/// `budget`; nullopt if the smallest types need more. tensors: 1 to 255 types each. Exact if the
/// sizes between which it chooses are at most 2^18 times their greatest common divisor; otherwise
/// sizes are rounded up to that precision.
std::optional<std::vector<std::size_t>> best_types(std::span<const std::vector<TypeCost>> tensors,
                                                   std::uint64_t budget);

/// The types that a name stands for: "K": Q2_K to Q6_K and Q8_0; "all": these, the codebook types
/// and IQ4; else types separated by commas. Throws Error for unknown types and those that are not
/// quantized.
std::vector<DType> types_named(std::string_view names);

/// Returns a plan as text: a line "TENSOR TYPE" for each tensor that may have another type, then a
/// comment with its bytes and damage. heading: the comment before them, without '#', one line.
std::string type_plan_text(const QuantizePlan& plan, std::string_view heading);
/// Reads what type_plan_text() wrote, and what a user made of it. '#' begins a comment. Throws
/// Error that names the line: not two words, an unknown type, a tensor that the model lacks or that
/// has two lines. path: for errors.
ChosenTypes read_type_plan(std::string_view text, const GgufFile& file, const std::string& path);

}  // namespace cria
