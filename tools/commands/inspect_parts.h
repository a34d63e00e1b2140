// The parts of `cria inspect`: summary, metadata, tensors, tokenizer, difference of two files.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/file/json.h"
#include "model/gguf/gguf.h"
#include "tools/report/value_check.h"

namespace cria::tools {

/// Counts over all tensors of a file.
struct FileSummary {
  /// Tensors of one dtype.
  struct OfType {
    std::uint64_t tensors = 0, bytes = 0;
  };
  std::uint64_t parameters = 0, bytes = 0;
  std::map<std::string_view, OfType> types;  ///< by the dtype's name

  explicit FileSummary(const GgufFile& file);
  [[nodiscard]] double bits_per_weight() const;  ///< 0 without tensors
  [[nodiscard]] std::string_view largest_type()
      const;  ///< the dtype with the most bytes; "" without tensors
};

/// What one wants to know of a model: size, quantization, context, memory, capabilities, license.
Json summary_json(const GgufFile& file);
/// See summary_json().
std::string summary_text(const GgufFile& file);

/// A table of all keys. Long arrays are cut short, on a terminal also long strings.
std::string keys_text(const GgufFile& file);

/// All tensors: name, dtype, shape, bytes.
std::string tensors_text(const GgufFile& file);
Json tensors_json(const GgufFile& file);

/// Returns the chat template as stored in the file. Throws Error without one.
std::string template_text(const GgufFile& file);

/// "no vocabulary" if it is missing or, with a warning, cannot be read.
std::string tokenizer_text(const GgufFile& file);
/// The same; null without a vocabulary.
Json tokenizer_json(const GgufFile& file);

struct FileDifference {
  /// A key or tensor that is in one file only, or not the same in both; what: "only in A", "type
  /// F16 / Q4_K".
  struct Item {
    std::string name, what;
  };
  struct Values {
    std::string name;
    ValueDifference difference;
  };
  std::vector<Item> keys, tensors;
  std::vector<Values> values;          ///< tensors of one shape whose values differ
  std::uint64_t compared_tensors = 0;  ///< with the same shape in both files

  [[nodiscard]] bool none() const { return keys.empty() && tensors.empty() && values.empty(); }
};

/// Compares everything, with progress on a terminal. The order of keys and tensors does not count.
/// Reports tensors whose data is missing.
FileDifference compare_files(const GgufFile& a, const GgufFile& b);

std::string difference_text(const FileDifference& difference, const std::string& a,
                            const std::string& b);
Json difference_json(const FileDifference& difference);

}  // namespace cria::tools
