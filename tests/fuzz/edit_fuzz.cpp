// Edits of a file's metadata: KEY=TYPE:VALUE per line, or -KEY to remove a key; written and read
// again. Then the file's sampling defaults are read.
#include <cstring>

#include "engine/sample/options.h"
#include "model/gguf/rewrite.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/seed_models.h"
#include "tools/cli/flag.h"
#include "tools/options/values.h"

namespace cria::fuzz {
namespace {

GgufEdit edit_of(std::string_view input) {
  GgufEdit edit;
  while (!input.empty()) {
    const std::size_t end = std::min(input.find('\n'), input.size());
    const std::string line(input.substr(0, end));
    input.remove_prefix(std::min(end + 1, input.size()));
    if (line.starts_with('-')) {
      edit.remove.push_back(line.substr(1));
      continue;
    }
    try {
      edit.set.push_back(tools::parse_metadata("--set", line));
    } catch (const tools::UsageError&) {
    }
  }
  return edit;
}

/// Returns the value as a writer stores it, read from a file without other keys.
void require_value(const GgufFile& file, const std::string& key, const GgufData& value) {
  const GgufValue* const read = file.find(key);
  require(read != nullptr && read->type == value.type(), "another type");
  if (const auto* array = std::get_if<GgufArray>(&value)) {
    require(read->element == array->element && read->count == array->values.size(),
            "another array");
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    require(read->bytes == text->size() && std::memcmp(read->data, text->data(), read->bytes) == 0,
            "another text");
  } else {
    require(copy_value(file, *read) == value, "another number");
  }
}

void ask_for_sampling(const GgufFile& file) {
  try {
    SamplerOptions options;
    set_sampling_defaults(file, options);
    require(!sampling_text(options, file).empty(), "nothing in force");
  } catch (const Error&) {
  }
}

void run_edit(std::string_view input) {
  static const MemoryDirectory directory;
  static const std::string model = seed_models().front();
  directory.clear();
  const GgufFile file = GgufFile::from_bytes(std::as_bytes(std::span(model)), "fuzz");
  const GgufEdit edit = edit_of(input);
  const std::string path = directory.path("out.gguf");
  require(write_edited(file, path, edit), "stopped without a request");
  const GgufFile again = GgufFile::open(path);
  for (const auto& [key, value] : edit.set) require_value(again, key, value);
  for (const std::string& key : edit.remove)
    require(again.find(key) == nullptr, "a key that was removed");
  require(again.tensors().size() == file.tensors().size() && again.alignment() == file.alignment(),
          "another layout");
  for (const TensorView& tensor : file.tensors()) {
    const TensorView* const other = again.tensor(tensor.name);
    require(other != nullptr && other->bytes == tensor.bytes &&
                std::memcmp(other->data, tensor.data, tensor.bytes) == 0,
            "another tensor");
  }
  ask_for_sampling(again);
}

std::vector<std::string> edit_seeds() {
  return {
      "a=u8:255\nb=i8:-128\nc=u16:1\nd=i16:-1\ne=u32:1\nf=i32:-1\ng=u64:1\nh=i64:-1\ni=f32:0.5\nj="
      "f64:"
      "1e300\nk=bool:true",
      "a=string:text\nb=string:\nc=u8[]:[1,2]\nd=string[]:[\"x\",\"y\"]\ne=i32[][]:[[1],[]]\nf="
      "bool[]:[true]",
      "-general.architecture",
      "general.sampling.temp=f32:0.2\ngeneral.sampling.top_k=i32:20\ngeneral.sampling.sequence="
      "string:top_k;"
      "temperature",
      "general.sampling.temp=string:x",
      "general.sampling.penalty_last_n=i64:-1\ngeneral.sampling.penalty_repeat=f64:1.1\ngeneral."
      "sampling."
      "mirostat=u8:2",
      "general.sampling.xtc_probability=f32:0.5\ngeneral.sampling.xtc_threshold=f32:0.1",
      "general.alignment=u32:64",
      "a=u8:256",
      "a=u8[]:[[1]]",
      "=",
      "a=f32:nan"};
}

std::vector<std::string> edit_words() {
  std::vector<std::string> words = {"=",    ":",    "[]", "\n", "\n-",   "string",
                                    "bool", "true", "[",  "]",  "1e999", "general.sampling."};
  for (const char* type : {"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f32", "f64"})
    words.push_back(std::string("=") + type + ":");
  for (const SamplerOption& option : kSamplerOptions)
    if (!option.gguf.empty()) words.push_back("general.sampling." + std::string(option.gguf));
  return words;
}

}  // namespace

const Target kEdit{"edit", run_edit, edit_seeds, nullptr, edit_words};

}  // namespace cria::fuzz
