#include "tools/commands/quantize_job.h"

#include <cassert>
#include <filesystem>
#include <limits>

#include "engine/calibrate/damage.h"
#include "engine/execute/machine.h"
#include "engine/model.h"
#include "engine/model_parts.h"
#include "model/plural.h"
#include "tools/options/values.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

constexpr std::size_t kDamageWindows = 2;   // at least, and one of each text
constexpr std::size_t kDamageTokens = 512;  // in each

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

std::uint64_t padded(std::uint64_t bytes, std::uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

// The first mix whose type most weights have.
const Mix* mix_of(const std::map<DType, std::uint64_t>& weights) {
  const auto most = most_of(weights);
  const Mix* const mix = most ? find_mix(name(*most)) : nullptr;
  return mix != nullptr ? mix : find_mix("Q8_0");
}

}  // namespace

Flags source_flags(QuantizeSources& sources) {
  return {
      {"--imatrix", "FILE",
       "importance matrix (made by cria imatrix): columns that matter more are kept "
       "more precise",
       into::text(sources.imatrix)},
      {"--calibrate", "FILE",
       "quantize with error feedback, by the inputs that the matrices have on a text; self: only "
       "what the model writes itself, prose and dialogues, which is added to other texts, too; may "
       "be repeated, and texts alternate",
       into::each(sources.calibrate)},
      {"--no-self",
       "",
       "calibrate with the given texts alone",
       into::flag(sources.no_self),
       {.needs = "--calibrate"}},
      {"--calibrate-tokens", "N",
       "tokens to calibrate with (default: 128 for each column of the widest matrix, at most "
       "131072)",
       into::number(sources.calibrate_tokens, 1, 1 << 30)},
  };
}

QuantizeJob::QuantizeJob(const std::string& input, const QuantizeSources& sources, unsigned threads)
    : sources_(sources),
      threads_(threads != 0 ? threads : usable_cores()),
      file_(GgufFile::open(input)) {
  try {
    types_ = types_named(sources.types);
  } catch (const Error& error) {
    throw UsageError("--types, --size-types", error.what());
  }
  if (!sources.imatrix.empty()) {
    importance_ = ImportanceMatrix::read(sources.imatrix);
    require_importance_of(file_, *importance_, sources.imatrix);  // before anything is written
  }
}

const Model& QuantizeJob::model() const {
  if (!model_) model_ = Model::load(file_.path());
  return *model_;
}

std::vector<CalibrationText> QuantizeJob::texts() const {
  std::vector<CalibrationText> texts;
  bool self = sources_.no_self;
  for (const std::string& path : sources_.calibrate) {
    const bool own = path == "self";
    if (own && std::exchange(self, true)) continue;
    texts.push_back({path, own ? std::nullopt : std::optional(read_file(path))});
  }
  if (!self) texts.push_back({"self", {}});
  return texts;
}

CalibrationTokens QuantizeJob::tokens_of(std::span<const CalibrationText> texts,
                                         std::size_t max_tokens) const {
  const std::atomic<bool>& interrupted = catch_interrupts();
  OwnTextOptions own;
  own.threads = threads_;
  own.on_progress = [&](std::size_t) { return !interrupted; };
  CalibrationTokens tokens = calibration_tokens(model(), texts, max_tokens, own);
  if (interrupted) throw Interrupted();
  return tokens;
}

const CalibrationTokens& QuantizeJob::tokens() const {
  if (tokens_.ids.empty()) tokens_ = tokens_of(texts(), sources_.calibrate_tokens);
  return tokens_;
}

QuantizePlan QuantizeJob::plan(QuantizeOptions options, ChosenTypes chosen) const {
  std::map<DType, std::uint64_t> weights;
  for (const auto& [name, cost] : chosen) {
    const TensorView& tensor = *file_.tensor(name);
    weights[cost.type] += tensor.rows() * tensor.cols();
  }
  options.mix = mix_of(weights);
  options.pure = true;
  options.chosen = std::move(chosen);
  return plan_quantize(file_, options);
}

QuantizePlan QuantizeJob::plain_plan(const QuantizeOptions& options) const {
  ChosenTypes own;
  for (const TensorView& tensor : file_.tensors())
    own[std::string(tensor.name)].type = dtype_info(tensor.dtype).plain;
  return plan(options, std::move(own));
}

QuantizePlan QuantizeJob::plan(QuantizeOptions options, const Budget& budget) {
  options.mix = find_mix("Q8_0");
  options.pure = true;
  const QuantizePlan open = plan_quantize(file_, options);
  const Allowance allowance = allowance_of(open, budget);
  const std::uint64_t least = least_bytes(open, allowance);  // before minutes of measuring
  if (allowance.bytes < least)
    throw Error(file_.path(), "these types need at least " + allowance.text(least) +
                                  ": raise the budget or add smaller types (--types all)");
  measure(open);
  std::vector<std::string_view> names;
  std::vector<std::vector<TypeCost>> costs;
  for (const PlannedTensor& tensor : open.tensors) {
    if (!tensor.free) continue;
    names.push_back(tensor.source->name);
    std::vector<TypeCost>& types = costs.emplace_back(costs_.find(names.back())->second);
    for (TypeCost& type : types) type.bytes = padded(type.bytes, allowance.alignment);
  }
  const auto best = best_types(costs, allowance.bytes - allowance.taken);
  assert(best);  // the smallest types fit
  ChosenTypes chosen;
  predicted_ = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const TypeCost& type = costs[i][(*best)[i]];
    chosen.emplace(names[i], type);
    predicted_ += type.damage;
  }
  return plan(std::move(options), std::move(chosen));
}

QuantizeJob::Allowance QuantizeJob::allowance_of(const QuantizePlan& open,
                                                 const Budget& budget) const {
  Allowance allowance;
  for (const PlannedTensor& tensor : open.tensors)
    allowance.weights += static_cast<double>(tensor.source->rows() * tensor.source->cols());
  if (budget.size.empty()) {
    allowance.bytes = static_cast<std::uint64_t>(budget.bits * allowance.weights / 8);
    for (const PlannedTensor& tensor : open.tensors)
      if (!tensor.free) allowance.taken += tensor.bytes();
    return allowance;
  }
  allowance.bytes = parse_size("--size", budget.size);
  allowance.alignment = file_.alignment();
  GgufWriter writer("", file_.alignment());  // gives the size of the metadata
  declare(writer, open);
  allowance.taken = writer.file_bytes();
  for (const PlannedTensor& tensor : open.tensors)
    if (tensor.free) allowance.taken -= padded(tensor.bytes(), allowance.alignment);
  return allowance;
}

std::uint64_t QuantizeJob::least_bytes(const QuantizePlan& open, const Allowance& allowance) const {
  std::uint64_t least = allowance.taken;
  for (const PlannedTensor& tensor : open.tensors) {
    if (!tensor.free) continue;
    const TensorView& source = *tensor.source;
    std::uint64_t smallest = std::numeric_limits<std::uint64_t>::max();
    for (const DType type : types_) {
      const DTypeInfo& info = dtype_info(dividing_type(source, type));
      smallest = std::min(smallest, source.rows() * info.row_bytes(source.cols()));
    }
    least += padded(smallest, allowance.alignment);
  }
  return least;
}

std::string QuantizeJob::Allowance::text(std::uint64_t used) const {
  return alignment > 1 ? counted(used, "byte")
                       : fixed(8 * static_cast<double>(used) / weights, 3) + " bits per weight";
}

void QuantizeJob::measure(const QuantizePlan& open) {
  std::vector<const TensorView*> unknown;
  for (const PlannedTensor& tensor : open.tensors)
    if (tensor.free && !costs_.contains(tensor.source->name))
      unknown.push_back(model().file().tensor(tensor.source->name));
  const std::vector<std::vector<TypeCost>> measured = damages(unknown);
  for (std::size_t i = 0; i < unknown.size(); ++i) costs_.emplace(unknown[i]->name, measured[i]);
}

std::vector<std::vector<TypeCost>> QuantizeJob::damages(
    std::span<const TensorView* const> tensors) const {
  if (tensors.empty()) return {};
  const std::atomic<bool>& interrupted = catch_interrupts();
  const std::vector<CalibrationText> texts =
      sources_.calibrate.empty() ? std::vector<CalibrationText>{{"self", {}}} : this->texts();
  const CalibrationTokens tokens =
      tokens_of(texts, kDamageTokens * std::max(kDamageWindows, texts.size()));
  Progress progress("measuring", "tensors", tensors.size());
  DamageOptions options;
  options.types = types_;
  options.importance = importance_ ? &*importance_ : nullptr;
  options.threads = threads_;
  options.on_tensor = [&](std::size_t done, std::size_t) {
    progress.update(done);
    return !interrupted;
  };
  auto costs = measure_damage(model(), tensors, tokens, options);
  if (costs.empty()) throw Interrupted();
  return costs;
}

void QuantizeJob::declare(GgufWriter& writer, const QuantizePlan& plan) const {
  cria::declare(writer, file_, plan);
  if (!sources_.calibrate.empty()) {
    std::string names;
    for (const CalibrationText& text : texts())
      names += (names.empty() ? "" : ", ") + file_name(text.name);
    declare_calibration(writer, names, tokens().ids.size());
  }
  if (importance_) declare_importance(writer, *importance_, file_name(sources_.imatrix));
}

CalibrationState QuantizeJob::calibrated(const QuantizePlan& plan, const std::string& output,
                                         bool verbose) const {
  const std::atomic<bool>& interrupted = catch_interrupts();
  std::uint64_t weights = 0, done = 0;
  for (const PlannedTensor& tensor : plan.tensors)
    if (!tensor.copied()) weights += tensor.source->rows() * tensor.source->cols();
  Progress progress("calibrating", "weights", weights);
  CalibrationOptions options;
  options.feedback.threads = threads_;
  options.on_start = [](std::uint64_t bytes) {
    print_line("calibrating: needs up to " + human_bytes(bytes) + " of memory");
  };
  options.on_note = [](const std::string& note) { print_warning(note); };
  options.check = [&interrupted] {
    if (interrupted) throw Interrupted();
  };
  options.on_matrix = [&](const std::string& tensor, std::uint64_t n, const FeedbackLoss& loss) {
    progress.update(done += n);
    if (verbose && loss.encoded > 0)
      print_line(without_controls(tensor) + ": loss " + significant(loss.found / loss.encoded) +
                 " of the encoder's");
  };
  CalibrationState state =
      sources_.state.empty()
          ? CalibrationState::unnamed(plan, std::filesystem::path(output).parent_path().string())
          : CalibrationState(plan, sources_.state,
                             calibration_identity(model(), plan, tokens(), options));
  if (state.finished() > 0)
    print_line(sources_.state + ": continues after " +
               counted(state.finished(), "finished matrix", "finished matrices"));
  try {
    calibrate(model(), plan, tokens(), options, state);
  } catch (const Interrupted&) {
    if (!sources_.state.empty())
      print_line(sources_.state + " keeps what is finished: run again to continue");
    throw;
  }
  return state;
}

void QuantizeJob::write(const QuantizePlan& plan, GgufWriter& writer, bool verbose, bool measure,
                        const OnTensor& on_tensor) const {
  const std::atomic<bool>& interrupted = catch_interrupts();
  std::optional<CalibrationState> state;
  if (!sources_.calibrate.empty()) state.emplace(calibrated(plan, writer.path(), verbose));
  std::uint64_t total = 0;
  for (const PlannedTensor& tensor : plan.tensors) total += tensor.bytes();
  Progress progress("quantizing", "bytes", total);
  QuantizeRun run;
  run.threads = threads_;
  run.importance = importance_ ? &*importance_ : nullptr;
  run.made = [&](const PlannedTensor& tensor) -> std::span<const std::byte> {
    return state ? state->tensor(tensor.source->name) : std::span<const std::byte>();
  };
  run.measure = measure;
  run.on_progress = [&](std::uint64_t bytes) {
    progress.update(bytes, "of " + human_bytes(total));
    return !interrupted;
  };
  run.on_tensor = on_tensor;
  if (!quantize(file_, plan, writer, run)) throw Interrupted();
  if (state && !sources_.state.empty()) std::filesystem::remove(sources_.state);
}

}  // namespace cria::tools
