// Rows of one file in another order, of several tensors, or changed on their way.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/convert/weight_rows.h"
#include "model/hf/head_rows.h"

namespace cria {

/// Row i is row source(i) of all parts one after the other; parts have as many columns each.
std::unique_ptr<WeightRows> arranged_rows(std::vector<std::unique_ptr<WeightRows>> parts,
                                          std::uint64_t rows,
                                          std::function<std::uint64_t(std::uint64_t row)> source);
/// Every value plus `term`.
std::unique_ptr<WeightRows> rows_plus(std::unique_ptr<WeightRows> rows, float term);

/// Row i of an expert is column step·i + offset of its `of` columns.
struct ColumnChoice {
  std::uint64_t step = 1, offset = 0, of = 0;
};
/// Of floats [experts][cols][choice.of]. Throws Error for types that are not converted.
std::unique_ptr<WeightRows> column_rows(const SafeTensor& tensor, std::uint64_t rows,
                                        std::uint64_t cols, std::uint64_t rows_of_expert,
                                        ColumnChoice choice);

/// OpenAI's form of MXFP4: codes [rows][cols/32][16], two in a byte, the lower the first; a scale
/// [rows][cols/32] of eight bits, an exponent with bias 127. Throws Error for shapes and types that
/// do not fit.
std::unique_ptr<WeightRows> fp4_rows(const SafeTensor& codes, const SafeTensor& scales,
                                     std::uint64_t rows, std::uint64_t cols);

}  // namespace cria
