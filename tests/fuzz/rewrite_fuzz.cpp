// Models in several files: makes one or two files of the bytes, then opens, splits, merges and
// reads them again.
#include <cstring>

#include "model/gguf/parser.h"
#include "model/gguf/rewrite.h"
#include "tests/fuzz/gguf_mutator.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/seed_models.h"

namespace cria::fuzz {
namespace {

constexpr std::string_view kFirst = "m-00001-of-00002.gguf", kSecond = "m-00002-of-00002.gguf";
constexpr std::string_view kBetween = "*--8<--*";  // separates the files in the input

void require_same(const GgufFile& a, const GgufFile& b) {
  require(a.tensors().size() == b.tensors().size(), "another number of tensors");
  for (const TensorView& tensor : a.tensors()) {
    const TensorView* other = b.tensor(tensor.name);
    require(other != nullptr && other->dtype == tensor.dtype && other->shape == tensor.shape,
            "another tensor");
    require(std::memcmp(other->data, tensor.data, tensor.bytes) == 0, "other values");
  }
  for (const GgufKey& key : a.keys()) {
    if (key.key.starts_with("split.") || key.key == "general.alignment") continue;
    const GgufValue* other = b.find(key.key);
    require(other != nullptr && other->type == key.value.type && other->count == key.value.count,
            "another key");
    require(key.value.type == GgufType::Array ||
                (other->bytes == key.value.bytes &&
                 std::memcmp(other->data, key.value.data, other->bytes) == 0),
            "another value");
  }
}

void run_rewrite(std::string_view input) {
  static const MemoryDirectory directory;
  directory.clear();
  const std::size_t cut = input.find(kBetween);
  const std::string path =
      directory.write(cut == std::string_view::npos ? "m.gguf" : kFirst, input.substr(0, cut));
  if (cut != std::string_view::npos) directory.write(kSecond, input.substr(cut + kBetween.size()));
  const GgufFile file = GgufFile::open(path);
  if (file.tensors().empty()) return;
  const auto shards =
      plan_shards(file, directory.path("out"), {.tensors = file.tensors().size() / 2 + 1});
  if (shards.size() > 1) {
    require(write_shards(file, shards), "stopped without a request");
    const GgufFile again = GgufFile::open(shards.front().path);
    require_same(file, again);
    require_same(again, file);
  }
  require(write_merged(file, directory.path("whole.gguf")), "stopped without a request");
  require_same(file, GgufFile::open(directory.path("whole.gguf")));
}

GgufForm seed_shard(std::uint16_t number) {
  GgufForm form;
  if (number == 0) form = seed_vocabulary(false);
  form.set("split.no", GgufType::U16, bytes_of(number));
  form.set("split.count", GgufType::U16, bytes_of(std::uint16_t{2}));
  form.set("split.tensors.count", GgufType::I32, bytes_of(std::int32_t{3}));
  for (int i = number; i < 2 * number + 1; ++i)
    form.add_tensor("t" + std::to_string(i), DType::F32, {8});
  form.place_tensors();
  return form;
}

std::string mutate_rewrite(std::string_view input, Random& random, std::size_t max_bytes) {
  const std::size_t cut = input.find(kBetween);
  if (cut == std::string_view::npos) return mutate_gguf(input, random, max_bytes);
  const std::string_view first = input.substr(0, cut), second = input.substr(cut + kBetween.size());
  const bool which = random() % 2 == 0;
  const std::string changed = mutate_gguf(which ? first : second, random, max_bytes / 2);
  if (changed.empty()) return "";
  return (which ? changed : std::string(first)) + std::string(kBetween) +
         (which ? std::string(second) : changed);
}

std::vector<std::string> rewrite_seeds() {
  std::vector<std::string> out = {seed_models().front(), seed_importance().bytes()};
  const std::string first = seed_shard(0).bytes();
  out.push_back(first + std::string(kBetween) + seed_shard(1).bytes());
  out.push_back(first + std::string(kBetween) + first);
  const auto add = [&](std::uint16_t shard, std::string_view key, GgufType type,
                       std::string payload) {
    GgufForm changed = seed_shard(shard);
    changed.set(key, type, std::move(payload));
    out.push_back((shard == 0 ? changed.bytes() : first) + std::string(kBetween) +
                  (shard == 1 ? changed : seed_shard(1)).bytes());
  };
  for (const std::uint16_t shard : {0, 1}) {
    add(shard, "split.no", GgufType::U16, bytes_of(std::uint16_t{7}));
    add(shard, "split.no", GgufType::F32, bytes_of(1.0F));
    add(shard, "split.count", GgufType::U16, bytes_of(std::uint16_t{3}));
    add(shard, "split.count", GgufType::U32, bytes_of(std::uint32_t{1} << 20));
    add(shard, "split.tensors.count", GgufType::I32, bytes_of(std::int32_t{4}));
  }
  GgufForm old = seed_shard(1);
  old.version = 2;
  out.push_back(first + std::string(kBetween) + old.bytes());
  return out;
}

}  // namespace

const Target kRewrite{"rewrite", run_rewrite, rewrite_seeds, mutate_rewrite, gguf_words};

}  // namespace cria::fuzz
