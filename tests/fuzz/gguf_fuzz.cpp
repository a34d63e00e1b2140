// GGUF files: header, keys, tensors, hyper-parameters, weights by name, vocabulary, and all
// getters.
#include <cstring>

#include "engine/architectures/architecture.h"
#include "engine/convert/hf_config.h"
#include "model/gguf/writer.h"
#include "model/vocabulary.h"
#include "tests/fuzz/gguf_mutator.h"
#include "tests/fuzz/refused_models.h"
#include "tests/fuzz/seed_models.h"

namespace cria::fuzz {
namespace {

/// Views must point into the file.
void check_places(const GgufFile& file, std::string_view bytes, bool metadata_only) {
  const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
  const auto* const end = begin + bytes.size();
  for (const GgufKey& key : file.keys()) {
    require(key.value.data >= begin &&
                key.value.bytes <= static_cast<std::size_t>(end - key.value.data),
            "a value outside of the file");
    require(file.find(key.key) != nullptr, "key not found");
  }
  for (const TensorView& tensor : file.tensors()) {
    require(file.tensor(tensor.name) == &tensor, "tensor not found");
    require(tensor.bytes == tensor.row_bytes() * tensor.rows(), "a tensor of the wrong size");
    if (!metadata_only)
      require(tensor.data >= begin && tensor.bytes <= static_cast<std::size_t>(end - tensor.data),
              "a tensor outside of the file");
  }
}

template <class Get>
void ask(Get get) {
  try {
    static_cast<void>(get());
  } catch (const Error&) {  // another type
  }
}

/// Reads every value as every type.
void ask_for_all(const GgufFile& file) {
  for (const GgufKey& key : file.keys()) {
    ask([&] { return file.find_uint(key.key); });
    ask([&] { return file.find_float(key.key); });
    ask([&] { return file.find_bool(key.key); });
    ask([&] { return file.find_string(key.key); });
    ask([&] { return file.find_strings(key.key); });
    ask([&] { return file.find_floats(key.key); });
    ask([&] { return file.find_ints(key.key); });
    ask([&] { return file.get_uint(key.key); });
    ask([&] { return file.get_float(key.key); });
    ask([&] { return copy_value(file, key.value); });
    if (key.value.type == GgufType::Array)
      require(file.elements(key.value).size() == key.value.count, "another number of elements");
  }
  ask([&] { return file.get_string("missing key"); });
}

template <class Read>
void read_part(Read read) {
  try {
    static_cast<void>(read());
  } catch (const Error&) {
  }
}

void run_gguf(std::string_view input) {
  for (const bool metadata_only : {false, true}) {
    // A copy with an exact end lets AddressSanitizer find reads beyond it.
    const std::vector<std::byte> copy(
        reinterpret_cast<const std::byte*>(input.data()),
        reinterpret_cast<const std::byte*>(input.data()) + input.size());
    read_part([&] {
      const auto file = GgufFile::from_bytes(copy, "fuzz", {.metadata_only = metadata_only});
      check_places(file, {reinterpret_cast<const char*>(copy.data()), copy.size()}, metadata_only);
      ask_for_all(file);
      read_part([&] { return Vocabulary::from_gguf(file); });
      read_part([&] { return build_graph(file, read_config(file), *available_kernels().back()); });
      for (const HfClass& one : hf_classes())
        read_part([&] { return HfConfig::from_gguf(file, read_config(file), one); });
      return 0;
    });
  }
}

std::vector<std::string> gguf_seeds() {
  std::vector<std::string> out = seed_models();
  out.push_back(seed_vocabulary(true).bytes());
  out.push_back(seed_importance().bytes());
  GgufForm all;  // a value of every type
  for (std::uint32_t i = 0; i < 13; ++i) {
    const auto type = static_cast<GgufType>(i);
    if (type == GgufType::String)
      all.set_text("text", "a");
    else if (type == GgufType::Array)
      all.set("arrays", type,
              bytes_of(GgufType::Array) + all.count(2) +
                  all.array(GgufType::U8, std::vector<std::uint8_t>{1, 2}) +
                  all.array(GgufType::String, std::vector<std::string>{"x", "y"}));
    else
      all.set("n" + std::to_string(i), type,
              std::string(i < 2 || i == 7 ? 1
                          : i < 4         ? 2
                          : i < 8         ? 4
                                          : 8,
                          '\1'));
  }
  out.push_back(all.bytes());
  for (const char* text :
       {"<!DOCTYPE html><html>", "version https://git-lfs.github.com/spec/v1\n", "PK\3\4", "FUGG\3",
        "ggjt\3\0\0\0", "\x40\0\0\0\0\0\0\0{\"a\":1}", "GGUF", "GG"})
    out.emplace_back(text);
  for (std::string& model : refused_models()) out.push_back(std::move(model));
  return out;
}

}  // namespace

const Target kGguf{"gguf", run_gguf, gguf_seeds, mutate_gguf, gguf_words};

}  // namespace cria::fuzz
