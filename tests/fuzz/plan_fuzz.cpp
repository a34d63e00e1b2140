// Plans of types (`cria quantize --plan`).
#include "engine/quantize/budget.h"
#include "engine/quantize/plan.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/seed_models.h"

namespace cria::fuzz {
namespace {

const GgufFile& planned_model() {
  static const MemoryFile bytes(SeedModel{.dtype = DType::F16, .layers = 2}.form().bytes());
  static const GgufFile file = GgufFile::open(bytes.path());
  return file;
}

QuantizePlan plan_with(ChosenTypes chosen) {
  QuantizeOptions options;
  options.mix = find_mix("Q8_0");
  options.pure = true;
  options.chosen = std::move(chosen);
  return plan_quantize(planned_model(), options);
}

// A plan that is read, written and read again is the same plan.
void run_plan(std::string_view input) {
  const QuantizePlan plan = plan_with(read_type_plan(input, planned_model(), "plan"));
  for (const PlannedTensor& tensor : plan.tensors)
    require(tensor.source->cols() % dtype_info(tensor.type).block_values == 0,
            "a type that does not divide the rows");
  const std::string text = type_plan_text(plan, "heading");
  const QuantizePlan again = plan_with(read_type_plan(text, planned_model(), "plan"));
  for (std::size_t i = 0; i < plan.tensors.size(); ++i)
    require(plan.tensors[i].type == again.tensors[i].type, "another type after writing");
}

std::vector<std::string> plan_seeds() {
  return {type_plan_text(plan_with({}), "heading"),
          "# comment\nblk.0.attn_q.weight Q4_K # why\n\n  blk.1.attn_q.weight\tQ8_0\r\n",
          "blk.0.attn_q.weight iq2_xs\ntoken_embd.weight F16", ""};
}

std::vector<std::string> plan_words() {
  return {"blk.0.attn_q.weight ",
          "token_embd.weight",
          " Q4_K\n",
          " Q8_0",
          "IQ3_S",
          "F32",
          "#",
          "\r\n",
          "\t"};
}

}  // namespace

const Target kPlan{"plan", run_plan, plan_seeds, nullptr, plan_words};

}  // namespace cria::fuzz
