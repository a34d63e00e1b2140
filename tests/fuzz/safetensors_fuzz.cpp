// safetensors files: eight bytes, a JSON header, values.
#include "model/safetensors/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/safetensors/writer.h"
#include "tests/fuzz/gguf_form.h"
#include "tests/fuzz/gguf_mutator.h"
#include "tests/fuzz/memory_file.h"
#include "tests/model/safetensors/bytes.h"

namespace cria::fuzz {
namespace {

void run_safetensors(std::string_view input) {
  const std::vector<std::byte> copy(
      reinterpret_cast<const std::byte*>(input.data()),
      reinterpret_cast<const std::byte*>(input.data()) + input.size());
  const auto file = SafetensorsFile::from_bytes(copy, "fuzz");
  std::size_t bytes = 0;
  std::vector<SafetensorsDeclaration> declared;
  for (const SafeTensor& tensor : file.tensors()) {
    bytes += tensor.data.size();
    require(tensor.data.empty() ||
                (tensor.data.data() >= copy.data() &&
                 tensor.data.size() <=
                     static_cast<std::size_t>(copy.data() + copy.size() - tensor.data.data())),
            "a tensor outside of the file");
    declared.push_back({tensor.name, tensor.type, tensor.shape});
    require(declared.back().bytes() == tensor.data.size(), "wrong size of a tensor");
  }
  require(bytes <= copy.size(), "more data than the file has");
  const MemoryFile on_disk(input);
  require(SafetensorsFile::open(on_disk.path()).tensors().size() == declared.size(),
          "another file by its path");
  const auto shards = plan_shards(declared, 64);
  std::size_t planned = 0;
  for (const SafetensorsShard& shard : shards) planned += shard.tensors.size();
  require(planned == declared.size() && !shard_index(shards).empty(), "a tensor in no shard");
}

std::vector<std::string> safetensors_seeds() {
  test::SafetensorsBytes file;
  file.add("a", "F32", {2, 2}, std::string(16, '\1')).add("b", "BF16", {3}, std::string(6, '\2'));
  file.add("s", "I64", {}, std::string(8, '\3')).add("none", "U8", {0, 4}, "");
  std::vector<std::string> out = {
      file.file(),
      test::safetensors_file(
          R"({"__metadata__":{"format":"pt"},"x":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]}}   )",
          "abcd"),
      test::safetensors_file("{}", ""), test::safetensors_file(R"({"__metadata__":{}})", "")};
  // Refused headers, one for every reason.
  for (
      const char* const header :
      {R"([])",
       R"({"a":1})",
       R"({"a":-1})",
       R"({"a":1.5})",
       R"({"a":null})",
       R"({"a":true})",
       R"({"a":[]})",
       R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})",
       R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})",
       R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})",
       R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})",
       R"({"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})",
       R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})",
       R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,4]}})",
       R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})",
       R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})",
       R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
       R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})",
       R"({"a":{"dtype":"F32","shape":[1]}})",
       R"({"a":{"dtype":1,"shape":[1],"data_offsets":[0,4]}})",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
       R"({"__metadata__":{"a":1}})",
       R"({"__metadata__":1})",
       R"({"a":{"shape":{}}})",
       R"({"a")"})
    out.push_back(test::safetensors_file(header, "abcd"));
  out.push_back(test::safetensors_file("{\"" + std::string(70'000, 'n') + "\":{}}", ""));
  out.push_back(bytes_of(std::uint64_t{1} << 40) + "{}");
  out.emplace_back("PK\3\4 and more than eight bytes");
  out.emplace_back("{}");
  return out;
}

/// Changes values of the JSON header.
std::string mutate_safetensors(std::string_view input, Random& random, std::size_t) {
  std::uint64_t length = 0;
  if (input.size() < 8) return "";
  std::memcpy(&length, input.data(), 8);
  if (length > input.size() - 8) return "";
  auto json = nlohmann::json::parse(input.substr(8, length), nullptr, false);
  if (!json.is_object() || json.empty()) return "";
  auto entry = json.begin();
  std::advance(entry, random() % json.size());
  constexpr const char* kTypes[] = {"F64", "F32",  "F16",     "BF16", "I64", "I8",
                                    "U8",  "BOOL", "F8_E4M3", "U64",  "?"};
  nlohmann::json& value = *entry;
  switch (value.is_object() ? random() % 7 : 5) {
    case 0:
      value["dtype"] = kTypes[random() % std::size(kTypes)];
      break;
    case 1:
      value["shape"] = {odd_number(random), random() % 3};
      break;
    case 2:
      value["data_offsets"] = {random() % 40, odd_number(random)};
      break;
    case 3:
      value["data_offsets"] = {random() % 40, random() % 40};
      break;
    case 4:
      json["new" + std::to_string(random() % 3)] = value;
      break;
    case 5:
      json.erase(entry);
      break;
    default:
      if (!value["shape"].is_array()) value["shape"] = nlohmann::json::array();
      value["shape"].push_back(random() % 3);
  }
  std::string header = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (random() % 8 == 0)
    header.insert(1, "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},");
  return test::safetensors_file(header, input.substr(8 + length));
}

std::vector<std::string> safetensors_words() {
  return {"\"dtype\"", "\"shape\"", "\"data_offsets\"",     "__metadata__", "\"F32\"", "\"BF16\"",
          "\"F16\"",   "\"I64\"",   "18446744073709551615", "[0,4]",        "-1",      "1e3",
          "{\"a\":{",  "\\u0000"};
}

}  // namespace

const Target kSafetensors{"safetensors", run_safetensors, safetensors_seeds, mutate_safetensors,
                          safetensors_words};

}  // namespace cria::fuzz
