#include "tools/report/file_difference.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "model/plural.h"
#include "tools/report/metadata_json.h"
#include "tools/report/table.h"
#include "tools/terminal/progress.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

std::string short_value(const GgufFile& file, const GgufValue& value) {
  constexpr std::uint64_t kElements = 4;
  constexpr std::size_t kBytes = 48;
  std::string text = metadata_json(file, value, kElements)
                         .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  if (value.type == GgufType::Array) text += " of " + std::to_string(value.count);
  if (text.size() > kBytes) {
    std::size_t end = kBytes;
    while ((text[end] & 0xC0) == 0x80) --end;
    text = text.substr(0, end) + " …";
  }
  return text;
}

// Of a number both bytes and type count; strings of one length lie in the file as they are.
bool same_value(const GgufValue& a, const GgufValue& b) {
  return a.type == b.type && (a.type != GgufType::Array || a.element == b.element) &&
         a.count == b.count && a.bytes == b.bytes && std::memcmp(a.data, b.data, a.bytes) == 0;
}

void compare_keys(const GgufFile& a, const GgufFile& b, FileDifference& out) {
  for (const GgufKey& key : a.keys()) {
    const GgufValue* other = b.find(key.key);
    if (other == nullptr)
      out.keys.push_back({std::string(key.key), "only in A: " + short_value(a, key.value)});
    else if (!same_value(key.value, *other))
      out.keys.push_back(
          {std::string(key.key), short_value(a, key.value) + " / " + short_value(b, *other)});
  }
  for (const GgufKey& key : b.keys()) {
    if (a.find(key.key) == nullptr)
      out.keys.push_back({std::string(key.key), "only in B: " + short_value(b, key.value)});
  }
}

void compare_tensor(const TensorView& a, const TensorView& b, FileDifference& out) {
  const std::string name(a.name);
  if (a.shape != b.shape) {
    out.tensors.push_back({name, "shape " + a.shape_string() + " / " + b.shape_string()});
    return;
  }
  if (a.dtype != b.dtype)
    out.tensors.push_back({name, "type " + std::string(cria::name(a.dtype)) + " / " +
                                     std::string(cria::name(b.dtype))});
  if (a.data == nullptr || b.data == nullptr) {
    out.tensors.push_back(
        {name, std::string("the data is missing in ") + (a.data == nullptr ? "A" : "B")});
    return;
  }
  ++out.compared_tensors;
  if (a.dtype == b.dtype && std::memcmp(a.data, b.data, a.bytes) == 0) return;
  const ValueDifference difference = compare_values(a, b);
  if (difference.different > 0)
    out.values.push_back({name, difference});
  else if (a.dtype == b.dtype)
    out.tensors.push_back({name, "other bytes, the same values"});
}

/// NaN and infinity have a column where there are any: the figures beside it do not know them.
Table values_table(const FileDifference& difference) {
  const bool finite = std::ranges::all_of(
      difference.values, [](const auto& tensor) { return tensor.difference.not_finite == 0; });
  std::vector<std::string> headings = {"values of", ">differ", ">of", ">largest difference",
                                       ">RMSE"};
  if (!finite) headings.emplace_back(">NaN, infinite");
  Table table(std::move(headings));
  for (const auto& [name, values] : difference.values) {
    std::vector<std::string> row = {without_controls(name), std::to_string(values.different),
                                    std::to_string(values.values), significant(values.largest),
                                    significant(values.rmse)};
    if (!finite) row.push_back(std::to_string(values.not_finite));
    table.add(std::move(row));
  }
  return table;
}

}  // namespace

FileDifference compare_files(const GgufFile& a, const GgufFile& b) {
  FileDifference difference;
  compare_keys(a, b, difference);
  Progress progress("comparing", "bytes", a.file_bytes());
  std::uint64_t bytes = 0;
  for (const TensorView& tensor : a.tensors()) {
    if (const TensorView* other = b.tensor(tensor.name); other == nullptr)
      difference.tensors.push_back({std::string(tensor.name), "only in A"});
    else
      compare_tensor(tensor, *other, difference);
    bytes += tensor.bytes;
    progress.update(bytes);
  }
  for (const TensorView& tensor : b.tensors()) {
    if (a.tensor(tensor.name) == nullptr)
      difference.tensors.push_back({std::string(tensor.name), "only in B"});
  }
  return difference;
}

std::string difference_text(const FileDifference& difference, const std::string& a,
                            const std::string& b) {
  if (difference.none())
    return "no difference: the same keys, and " + counted(difference.compared_tensors, "tensor") +
           " of the same types and values\n";
  std::string text = "A: " + without_controls(a) + "\nB: " + without_controls(b) + "\n";
  const auto add_items = [&](const char* heading, const std::vector<FileDifference::Item>& items) {
    if (items.empty()) return;
    Table table({heading, "A / B"});
    for (const auto& [name, what] : items)
      table.add({without_controls(name), without_controls(what)});
    text += "\n" + table.text(stdout);
  };
  add_items("key", difference.keys);
  add_items("tensor", difference.tensors);
  if (!difference.values.empty()) text += "\n" + values_table(difference).text(stdout);
  return text + "\nDifferent: " + counted(difference.keys.size(), "key") +
         "; type, shape or presence of " + counted(difference.tensors.size(), "tensor") +
         "; values of " + std::to_string(difference.values.size()) + " of " +
         counted(difference.compared_tensors, "tensor") + " compared\n";
}

nlohmann::ordered_json difference_json(const FileDifference& difference) {
  const auto items = [](const std::vector<FileDifference::Item>& list) {
    auto array = nlohmann::ordered_json::array();
    for (const auto& [name, what] : list) array.push_back({{"name", name}, {"difference", what}});
    return array;
  };
  auto values = nlohmann::ordered_json::array();
  for (const auto& [name, figures] : difference.values)
    values.push_back({{"name", name},
                      {"values", figures.values},
                      {"different", figures.different},
                      {"not_finite", figures.not_finite},
                      {"largest", figures.largest},
                      {"rmse", figures.rmse}});
  return {{"equal", difference.none()},
          {"keys", items(difference.keys)},
          {"tensors", items(difference.tensors)},
          {"compared_tensors", difference.compared_tensors},
          {"different_tensors", difference.values.size()},
          {"values", values}};
}

}  // namespace cria::tools
