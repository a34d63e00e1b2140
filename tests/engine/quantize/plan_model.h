// Files with the tensors of a model, but hardly any values: for tests of what is planned for them.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "engine/quantize/plan.h"
#include "model/gguf/writer.h"

namespace cria::test {

struct PlanShape {
  std::uint32_t n_layers = 1, n_embd = 256, n_ff = 256;
  std::uint32_t group = 1;  ///< query heads per key head
  std::uint32_t experts = 0;
  bool tied = false;
  DType source = DType::F16;
};

/// A file of zeros; matrices have as few rows as the rules need.
class PlanModel {
 public:
  explicit PlanModel(const PlanShape& shape) : file_(write(shape)) {}
  ~PlanModel() { std::filesystem::remove(path()); }
  PlanModel(const PlanModel&) = delete;
  PlanModel& operator=(const PlanModel&) = delete;

  [[nodiscard]] const std::string& path() const { return file_.path(); }
  [[nodiscard]] const GgufFile& file() const { return file_; }
  [[nodiscard]] QuantizePlan plan(std::string_view mix, QuantizeOptions options = {}) const {
    options.mix = find_mix(mix);
    return plan_quantize(file_, options);
  }

 private:
  static GgufFile write(const PlanShape& shape) {
    const auto path = std::filesystem::temp_directory_path() /
                      ("cria-plan-" + std::to_string(getpid()) + ".gguf");
    GgufWriter writer(path.string());
    writer.set("general.architecture", std::string("llama"));
    std::vector<std::uint64_t> sizes;
    const auto declare = [&](const std::string& name, DType type,
                             const std::vector<std::uint64_t>& dimensions) {
      writer.declare(name, type, dimensions);
      std::uint64_t bytes = dtype_info(type).row_bytes(dimensions[0]);
      for (std::size_t i = 1; i < dimensions.size(); ++i) bytes *= dimensions[i];
      sizes.push_back(bytes);
    };
    const auto matrix = [&](const std::string& name, std::uint64_t cols, std::uint64_t rows) {
      declare(name + ".weight", shape.source, {cols, rows});
    };
    matrix("token_embd", shape.n_embd, 1);
    if (!shape.tied) matrix("output", shape.n_embd, 1);
    declare("output_norm.weight", DType::F32, {shape.n_embd});
    for (std::uint32_t i = 0; i < shape.n_layers; ++i) {
      const std::string blk = "blk." + std::to_string(i) + ".";
      declare(blk + "attn_norm.weight", DType::F32, {shape.n_embd});
      matrix(blk + "attn_q", shape.n_embd, shape.group);
      for (const char* name : {"attn_k", "attn_v", "attn_output"})
        matrix(blk + name, shape.n_embd, 1);
      if (shape.experts == 0) {
        for (const char* name : {"ffn_gate", "ffn_up"}) matrix(blk + name, shape.n_embd, 1);
        matrix(blk + "ffn_down", shape.n_ff, 1);
      } else {
        declare(blk + "ffn_gate_inp.weight", DType::F32, {shape.n_embd, shape.experts});
        for (const char* name : {"ffn_gate_exps.weight", "ffn_up_exps.weight"})
          declare(blk + name, shape.source, {shape.n_embd, 1, shape.experts});
        declare(blk + "ffn_down_exps.weight", shape.source, {shape.n_ff, 1, shape.experts});
      }
    }
    writer.begin();
    for (const std::uint64_t size : sizes) writer.write(std::vector<std::byte>(size));
    writer.finish();
    return GgufFile::open(path.string());
  }

  GgufFile file_;
};

/// Returns the planned type of a tensor.
inline DType type_in(const QuantizePlan& plan, std::string_view name) {
  for (const PlannedTensor& tensor : plan.tensors) {
    if (tensor.source->name == name) return tensor.type;
  }
  throw Error("", "no such tensor", name);
}

}  // namespace cria::test
