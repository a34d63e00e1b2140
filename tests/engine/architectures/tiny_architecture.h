// A small random model of any architecture. What tensors it needs, the architecture's own
// description says: they are added one after the other until the file is accepted.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "engine/architectures/architecture.h"
#include "engine/model_parts.h"
#include "engine/session.h"
#include "engine/synthetic/synthetic.h"
#include "model/gguf/writer.h"
#include "tests/engine/load_written.h"
#include "tests/engine/random.h"

namespace cria::test {

struct ArchitectureCase {
  std::string name;  ///< name of the test
  std::string arch;
  std::map<std::string, GgufData> keys;  ///< beyond the usual ones, without the prefix
  /// Optional tensors; "*" stands for every layer, a shape is [columns, rows, …].
  std::vector<std::pair<std::string, std::vector<std::uint64_t>>> tensors;
  double golden = 0;  ///< checksum of its logits
};
inline void PrintTo(const ArchitectureCase& c, std::ostream* out) { *out << c.name; }

class TinyArchitecture {
 public:
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> shape;
    std::optional<DType> type = {};  ///< where its rows are whole blocks
    std::optional<float> fill = {};  ///< instead of random values
  };
  static constexpr std::uint32_t kLayers = 4, kVocabulary = 40;

  explicit TinyArchitecture(const ArchitectureCase& c) : arch(c.arch) {
    const std::map<std::string, GgufData> usual = {
        {"block_count", kLayers},      {"context_length", 256U},
        {"embedding_length", 64U},     {"feed_forward_length", 96U},
        {"attention.head_count", 4U},  {"attention.head_count_kv", 2U},
        {"attention.key_length", 16U}, {"attention.value_length", 16U},
        {"rope.dimension_count", 16U}};
    for (const auto& [suffix, value] : usual) keys[arch + "." + suffix] = value;
    const bool layer_norm = find_architecture(arch)->norm == NormKind::Layer;
    keys[arch + (layer_norm ? ".attention.layer_norm_epsilon"
                            : ".attention.layer_norm_rms_epsilon")] = 1e-5F;
    for (const auto& [suffix, value] : c.keys)
      keys[suffix.starts_with("xielu.") ? suffix : arch + "." + suffix] = value;
    for (const auto& [name, shape] : c.tensors) {
      if (!name.starts_with("*.")) tensors.push_back({name, shape});
      for (std::uint32_t i = 0; i < kLayers && name.starts_with("*."); ++i)
        tensors.push_back({"blk." + std::to_string(i) + name.substr(1), shape});
    }
    if (tensors.empty() || tensors.front().name != "token_embd.weight")
      tensors.insert(tensors.begin(), {"token_embd.weight", {64, kVocabulary}});
    complete();
  }

  std::string arch;
  std::map<std::string, GgufData> keys;
  std::vector<Tensor> tensors;
  std::set<std::string> required = {"token_embd.weight"};  ///< complete() found these required
  DType matrix_type = DType::Q8_0;  ///< type of matrices with rows of whole blocks
  std::function<void(const Tensor&, std::vector<float>& values)> edit;  ///< changes what is written

  /// Writes, opens and removes the file. Throws Error if it is refused.
  [[nodiscard]] std::shared_ptr<const Model> load() const {
    return load_written([this](const std::string& path) { write(path); });
  }

  void write(const std::string& path) const {
    GgufWriter writer(path);
    writer.set("general.architecture", arch);
    for (const auto& [key, value] : keys) writer.set(key, value);
    std::vector<std::string> tokens;
    while (tokens.size() < kVocabulary) tokens.push_back("w" + std::to_string(tokens.size()));
    writer.set("tokenizer.ggml.model", std::string("llama"));
    writer.set("tokenizer.ggml.tokens", GgufArray::of(tokens));
    writer.set("tokenizer.ggml.scores", GgufArray::of(std::vector<float>(kVocabulary)));
    writer.set("tokenizer.ggml.token_type",
               GgufArray::of(std::vector<std::int32_t>(kVocabulary, 1)));
    for (const Tensor& t : tensors) writer.declare(t.name, type_of(t), t.shape);
    writer.begin();
    for (const Tensor& t : tensors) writer.write(blocks_of(t));
    writer.finish();
  }

  [[nodiscard]] bool has_output_norm() const {
    return arch != "olmo" && arch.find("bert") == std::string::npos && !arch.starts_with("lfm2");
  }

  // Matrices whose rows are whole blocks are quantized, so that both kinds of products are there.
  [[nodiscard]] DType type_of(const Tensor& t) const {
    if (t.type && t.shape[0] % dtype_info(*t.type).block_values == 0) return *t.type;
    const bool matrix =
        t.shape.size() > 1 && t.name.ends_with(".weight") && !t.name.ends_with("_norm.weight");
    const bool whole =
        matrix && t.shape[0] % 32 == 0 && t.name.find("gate_inp") == std::string::npos;
    return whole ? matrix_type : DType::F32;
  }

 private:
  // block_count must not surpass the number of tensors, so a few are there from the start.
  void complete() {
    static const std::regex missing(
        R"(missing tensor: expected shape \[([0-9, ]+)\] \(tensor ([^)]+)\))");
    for (const char* name : {"output_norm.weight", "output.weight", "x.padding"})
      if (std::string(name) != "output_norm.weight" || has_output_norm())
        tensors.push_back({name, name == std::string("output.weight")
                                     ? std::vector<std::uint64_t>{64, kVocabulary}
                                     : std::vector<std::uint64_t>{64}});
    if (!has_output_norm()) tensors.push_back({"z.padding", {64}});
    for (int tries = 0; tries < 400; ++tries) {
      try {
        (void)load();
        return;
      } catch (const Error& error) {
        std::smatch match;
        const std::string text = error.what();
        if (!std::regex_search(text, match, missing)) throw;
        Tensor tensor{match[2], {}};
        required.insert(tensor.name);
        std::stringstream numbers(match[1]);
        for (std::string number; std::getline(numbers, number, ',');)
          tensor.shape.push_back(std::stoull(number));
        tensors.push_back(tensor);
      }
    }
    throw Error("a model that never is complete");
  }

  // Kept: the same tensors are written again and again.
  [[nodiscard]] const std::vector<std::byte>& blocks_of(const Tensor& t) const {
    static std::map<std::string, std::vector<std::byte>> known;
    std::string name = t.name + " " + std::to_string(static_cast<int>(type_of(t)));
    for (const std::uint64_t length : t.shape) name += " " + std::to_string(length);
    if (t.fill) name += " " + std::to_string(*t.fill);
    if (known.size() > 1000) known.clear();
    std::vector<std::byte>& blocks = known[name];
    if (!blocks.empty() && !edit) return blocks;
    std::vector<float> values = values_of(t);
    if (edit) edit(t, values);
    blocks.resize(dtype_info(type_of(t)).row_bytes(values.size()));
    if (type_of(t) == DType::F32) {
      std::memcpy(blocks.data(), values.data(), blocks.size());
    } else {
      available_kernels().back()->encode(type_of(t))(values.data(), nullptr, values.size(),
                                                     blocks.data());
    }
    if (!edit) return blocks;
    static std::vector<std::byte> edited;
    edited = std::exchange(blocks, {});
    return edited;
  }

  // Matrices so large that every part of the model matters for the logits.
  static std::vector<float> values_of(const Tensor& t) {
    std::uint64_t n = 1, seed = 17;
    for (const std::uint64_t length : t.shape) n *= length;
    for (const char c : t.name) seed = seed * 31 + static_cast<unsigned char>(c);
    Random random(seed);
    std::vector<float> values(n, t.fill.value_or(0.0F));
    if (t.fill) return values;
    const bool factor =
        t.name.ends_with("norm.weight") || t.name.starts_with("rope_") || t.name.ends_with("scale");
    const double scale =
        factor || t.shape.size() == 1 ? 0.5 : 2 / std::sqrt(static_cast<double>(t.shape[0]));
    for (float& x : values)
      x = static_cast<float>((random.uniform() * 2 - 1) * scale + (factor ? 1 : 0));
    if (t.name.ends_with(".ssm_a"))  // exponents of decays
      for (float& x : values) x = -std::abs(x);
    return values;
  }
};

/// The logits of all tokens of a text of n.
inline std::vector<float> architecture_logits(const Model& model, const SessionOptions& options,
                                              std::size_t n) {
  std::vector<TokenId> tokens;
  for (std::size_t i = 0; i < n; ++i)
    tokens.push_back(static_cast<TokenId>((i * i + 3 * i) % model.config().n_vocab));
  Session session(model, options);
  std::vector<float> all;
  session.eval_all(tokens, [&](std::size_t, std::span<const float> logits) {
    all.insert(all.end(), logits.begin(), logits.end());
  });
  return all;
}

/// One number that tells other logits, or others' order.
inline double checksum(const std::vector<float>& logits) {
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i)
    sum += logits[i] * (static_cast<double>(i * 7 % 11) - 5);
  return sum;
}

}  // namespace cria::test
