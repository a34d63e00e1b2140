// `cria quantize`: quantizes a model.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/calibrate/calibrate.h"
#include "engine/calibrate/calibration_text.h"
#include "engine/quantize/quantize.h"
#include "model/plural.h"
#include "tools/commands/commands.h"
#include "tools/options/values.h"
#include "tools/report/json.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

using Json = nlohmann::ordered_json;

struct QuantizeCommand {
  std::string input, output, type, imatrix, output_type, embedding_type;
  std::vector<std::string> tensor_types, calibrate;
  std::uint64_t calibrate_tokens = 0;
  unsigned threads = 0;
  bool pure = false, allow_requantize = false, dry_run = false, mixes = false, verbose = false,
       json = false;
};

/// The type by its name; throws a usage error that names the option.
DType parse_type(const std::string& option, const std::string& text) {
  const DTypeInfo* type = find_dtype(std::string_view(text));
  if (type == nullptr || type->dot == DotClass::None)
    throw UsageError(option, unknown_type_text(text));
  return type->id;
}

QuantizeOptions parse(const QuantizeCommand& command) {
  QuantizeOptions options;
  options.mix = find_mix(command.type);
  if (options.mix == nullptr) throw UsageError("TYPE", unknown_mix_text(command.type));
  options.pure = command.pure;
  options.allow_requantize = command.allow_requantize;
  options.weighted = !command.imatrix.empty() || !command.calibrate.empty();
  if (!command.output_type.empty())
    options.output_type = parse_type("--output-type", command.output_type);
  if (!command.embedding_type.empty())
    options.token_embedding_type = parse_type("--token-embedding-type", command.embedding_type);
  for (const std::string& text : command.tensor_types) {
    const std::size_t equals = text.rfind('=');
    if (equals == std::string::npos)
      throw UsageError("--tensor-type", "expected REGEX=TYPE, got " + text);
    try {
      options.tensor_types.emplace_back(Regex(std::string_view(text).substr(0, equals)),
                                        parse_type("--tensor-type", text.substr(equals + 1)));
    } catch (const Error& error) {
      throw UsageError("--tensor-type", error.what());
    }
  }
  return options;
}

/// Counts tensors without metadata, as cria inspect does.
struct BitsPerWeight {
  double before = 0, after = 0;

  explicit BitsPerWeight(const QuantizePlan& plan) {
    double values = 0;
    for (const PlannedTensor& tensor : plan.tensors) {
      values += static_cast<double>(tensor.source->rows() * tensor.source->cols());
      before += 8.0 * static_cast<double>(tensor.source->bytes);
      after += 8.0 * static_cast<double>(tensor.bytes());
    }
    if (values > 0) before /= values, after /= values;
  }
};

/// "model-Q4_K_M.gguf" in the same directory for "model-F16.gguf".
std::string derived_output(const std::string& input, const Mix& mix) {
  const std::filesystem::path path(input);
  std::string stem = path.stem().string();
  if (const std::size_t shard = stem.rfind("-00001-of-"); shard != std::string::npos)
    stem.resize(shard);
  const std::size_t separator = stem.find_last_of("-.");
  if (separator != std::string::npos && separator > 0) {
    const std::string last = stem.substr(separator + 1);
    if (find_mix(last) != nullptr || find_dtype(std::string_view(last)) != nullptr)
      stem.resize(separator);
  }
  return (path.parent_path() / (stem + "-" + std::string(mix.name) + ".gguf")).string();
}

/// Only a file that the user named is replaced.
void require_absent(const std::string& output) {
  std::error_code error;
  if (std::filesystem::exists(output, error))
    throw Error(output, "already exists; name it as OUT to replace it");
}

std::string percent(const QuantizeError& error) {
  return error.rms == 0 ? "0 %" : fixed(100 * error.rmse / error.rms, 3) + " %";
}

std::string types_text(const PlannedTensor& tensor) {
  const std::string from(name(tensor.source->dtype));
  return tensor.copied() ? from : from + " → " + std::string(name(tensor.type));
}

std::string mixes_text() {
  Table mixes_table({"quantization", "main type", ">its bits per weight", ">file type"});
  for (const Mix& mix : mixes()) {
    const DTypeInfo& type = dtype_info(mix.type);
    mixes_table.add({std::string(mix.name), std::string(type.name),
                     fixed(8.0 * type.block_bytes / type.block_values, 4),
                     std::to_string(mix.file_type)});
  }
  Table rules({"tensors", "layers", "models", "type", "quantizations"});
  for (const MixRule& rule : mix_rules())
    rules.add({std::string(rule.tensors), std::string(name(rule.layers)),
               std::string(name(rule.models)), std::string(name(rule.type)),
               rule.mixes == "*" ? "all that quantize" : std::string(rule.mixes)});
  Table stand_ins({"type", "where rows do not divide into its blocks"});
  for (const Fallback& fallback : fallbacks())
    stand_ins.add({std::string(name(fallback.from)), std::string(name(fallback.to))});
  return mixes_table.text(stdout) +
         "\nThe first rule that fits a tensor gives its type; without one it gets the main type. "
         "\"output\" includes an embedding that serves as output. \"spread\" means the first and "
         "last eighth of the layers and every third one between. Vectors, norms and routers of "
         "experts stay F32.\n\n" +
         rules.text(stdout) + "\n" + stand_ins.text(stdout);
}

Json mixes_json() {
  Json list = Json::array(), rules = Json::array(), stand_ins = Json::object();
  for (const Mix& mix : mixes())
    list.push_back({{"name", mix.name}, {"type", name(mix.type)}, {"file_type", mix.file_type}});
  for (const MixRule& rule : mix_rules())
    rules.push_back({{"tensors", rule.tensors},
                     {"layers", name(rule.layers)},
                     {"models", name(rule.models)},
                     {"type", name(rule.type)},
                     {"mixes", rule.mixes}});
  for (const Fallback& fallback : fallbacks())
    stand_ins[std::string(name(fallback.from))] = name(fallback.to);
  return {{"mixes", list}, {"rules", rules}, {"fallbacks", stand_ins}};
}

std::string plan_text(const QuantizePlan& plan) {
  Table table({"tensor", ">shape", "type", ">bytes", "why"});
  for (const PlannedTensor& tensor : plan.tensors)
    table.add({without_controls(tensor.source->name), tensor.source->shape_string(),
               types_text(tensor), std::to_string(tensor.bytes()), tensor.note});
  return table.text(stdout);
}

Json tensor_json(const PlannedTensor& tensor) {
  return {{"name", tensor.source->name},
          {"shape", tensor.source->shape},
          {"from", name(tensor.source->dtype)},
          {"type", name(tensor.type)},
          {"bytes", tensor.bytes()},
          {"note", tensor.note}};
}

class Quantization {
 public:
  explicit Quantization(const QuantizeCommand& command)
      : command_(command), options_(parse(command)), file_(GgufFile::open(command.input)) {
    for (const std::string& warning : file_.warnings()) print_warning(warning);
    require_other_file(file_, command.output);
    require_other_file(command.imatrix, command.output);
    read_importance();
    plan_ = plan_quantize(file_, options_);
    writer_.emplace(command.output, file_.alignment());
    declare(*writer_, file_, plan_);
    if (!command.calibrate.empty()) read_calibration();
    if (importance_)
      declare_importance(*writer_, *importance_,
                         std::filesystem::path(command.imatrix).filename().string());
  }

  void run() {
    if (!command_.dry_run) write();
    if (command_.json) {
      write_stdout(json_text(result_json()));
    } else {
      write_text((command_.dry_run ? plan_text(plan_) : "") + summary());
    }
    flush_stdout();
  }

 private:
  void read_importance() {
    const std::string_view advice = advice_without_importance(*options_.mix);
    if (command_.imatrix.empty()) {
      if (!advice.empty() && command_.calibrate.empty())
        print_warning(std::string(options_.mix->name) + ": " + std::string(advice));
      return;
    }
    importance_ = ImportanceMatrix::read(command_.imatrix);
    require_importance_of(file_, *importance_, command_.imatrix);  // before anything is written
  }

  void read_calibration() {
    model_ = Model::load(command_.input);
    std::vector<std::string> texts;
    std::string names;
    for (const std::string& path : command_.calibrate) {
      constexpr std::size_t kOwnWindows = 64;
      texts.push_back(path == "self" ? own_text(*model_, kOwnWindows, command_.threads)
                                     : read_file(path));
      names += (names.empty() ? "" : ", ") + std::filesystem::path(path).filename().string();
    }
    tokens_ = calibration_tokens(*model_, texts, command_.calibrate, command_.calibrate_tokens);
    declare_calibration(*writer_, names, tokens_.ids.size());
  }

  /// Quantizes what has inputs by their second moments.
  CalibratedTensors calibrated() {
    const std::atomic<bool>& interrupted = catch_interrupts();
    std::uint64_t weights = 0, done = 0;
    for (const PlannedTensor& tensor : plan_.tensors)
      if (!tensor.copied()) weights += tensor.source->rows() * tensor.source->cols();
    Progress progress("calibrating", "weights", weights);
    CalibrationOptions options;
    options.feedback.threads = command_.threads != 0 ? command_.threads : usable_cores();
    options.on_note = [](const std::string& note) { print_warning(note); };
    options.on_matrix = [&](const std::string& tensor, std::uint64_t n,
                            const Feedback::Loss& loss) {
      progress.update(done += n);
      if (command_.verbose && loss.encoded > 0)
        print_line(without_controls(tensor) + ": loss " + significant(loss.found / loss.encoded) +
                   " of the encoder's");
      return !interrupted;
    };
    CalibratedTensors tensors = calibrate(*model_, plan_, tokens_, options);
    if (interrupted) throw Interrupted();
    return tensors;
  }

  void write() {
    const std::atomic<bool>& interrupted = catch_interrupts();
    const CalibratedTensors made = model_ ? calibrated() : CalibratedTensors();
    std::uint64_t total = 0;
    for (const PlannedTensor& tensor : plan_.tensors) total += tensor.bytes();
    Progress progress("quantizing", "bytes", total);
    QuantizeRun run;
    run.threads = command_.threads;
    run.importance = importance_ ? &*importance_ : nullptr;
    run.made = [&](const PlannedTensor& tensor) -> std::span<const std::byte> {
      const auto found = made.find(tensor.source->name);
      return found == made.end() ? std::span<const std::byte>() : std::span(found->second);
    };
    run.measure = command_.verbose || command_.json;
    run.on_progress = [&](std::uint64_t bytes) {
      progress.update(bytes, "of " + human_bytes(total));
      return !interrupted;
    };
    run.on_tensor = [&](const PlannedTensor& tensor, const std::optional<QuantizeError>& error) {
      errors_.push_back(error);
      if (command_.verbose) say(tensor, error);
    };
    if (!quantize(file_, plan_, *writer_, run)) throw Interrupted();
  }

  void say(const PlannedTensor& tensor, const std::optional<QuantizeError>& error) const {
    const bool unweighted =
        importance_ && error && !importance_->entries.contains(tensor.source->name);
    std::string text = without_controls(tensor.source->name) + ' ' + tensor.source->shape_string() +
                       ' ' + types_text(tensor) + ", " + human_bytes(tensor.bytes());
    if (error) text += ", RMSE " + significant(error->rmse) + " (" + percent(*error) + ')';
    if (!tensor.note.empty()) text += "; " + tensor.note;
    if (unweighted) text += "; no importance known";
    print_line(text);
  }

  [[nodiscard]] std::string summary() const {
    std::size_t fallen_back = 0;
    for (const PlannedTensor& tensor : plan_.tensors)
      fallen_back += tensor.note.starts_with("rows") ? 1U : 0U;
    const std::uint64_t bytes = writer_->file_bytes();
    const BitsPerWeight bits(plan_);
    std::string text = without_controls(command_.output) + ": " + std::string(plan_.mix->name) +
                       ", " + counted(bytes, "byte") + " (" + human_bytes(bytes) + "), " +
                       fixed(bits.after, 2) +
                       " bits per weight; before: " + human_bytes(file_.file_bytes()) + ", " +
                       fixed(bits.before, 2) + "\n";
    if (fallen_back > 0)
      text += std::to_string(fallen_back) + " of " + counted(plan_.tensors.size(), "tensor") +
              (fallen_back == 1 ? " is" : " are") +
              " of a fallback type: their rows are not a multiple of the block size\n";
    return text;
  }

  [[nodiscard]] Json result_json() const {
    Json tensors = Json::array();
    for (std::size_t i = 0; i < plan_.tensors.size(); ++i) {
      Json tensor = tensor_json(plan_.tensors[i]);
      if (i < errors_.size() && errors_[i]) {
        tensor["rmse"] = errors_[i]->rmse;
        tensor["rms"] = errors_[i]->rms;
      }
      tensors.push_back(std::move(tensor));
    }
    const std::uint64_t bytes = writer_->file_bytes();
    return {{"output", command_.output},
            {"file", command_.output},
            {"type", plan_.mix->name},
            {"file_type", plan_.mix->file_type},
            {"bytes", bytes},
            {"input_bytes", file_.file_bytes()},
            {"bits_per_weight", BitsPerWeight(plan_).after},
            {"written", !command_.dry_run},
            {"tensors", tensors}};
  }

  const QuantizeCommand& command_;
  QuantizeOptions options_;
  GgufFile file_;
  std::optional<ImportanceMatrix> importance_;
  std::shared_ptr<const Model> model_;  // to be calibrated; null: not
  CalibrationTokens tokens_;
  QuantizePlan plan_;
  std::optional<GgufWriter> writer_;
  std::vector<std::optional<QuantizeError>> errors_;
};

int run(QuantizeCommand command) {
  if (command.mixes) {
    command.json ? write_stdout(json_text(mixes_json())) : write_text(mixes_text());
    return 0;
  }
  if (command.type.empty() && !command.output.empty() &&
      command.output.find('.') == std::string::npos) {
    command.type = std::exchange(command.output, {});
    if (const Mix* mix = find_mix(command.type); mix != nullptr) {
      command.output = derived_output(command.input, *mix);
      if (!command.dry_run) require_absent(command.output);
    }
  }
  if (command.type.empty())
    throw UsageError("TYPE is missing; cria quantize IN [OUT] TYPE, for example Q4_K_M");
  Quantization(command).run();
  return 0;
}

}  // namespace

void add_quantize(Program& program) {
  Command& command = program.add("quantize", "Quantize a model");
  auto options = std::make_shared<QuantizeCommand>();
  command.add({
      {"IN", "", "the model (GGUF; of a split model the first file), best in F16 or F32",
       into::text(options->input)},
      {"OUT", "",
       "the file to write; an existing one is replaced when the new one is complete (default: "
       "next to IN, named after it and the type)",
       into::output_file(options->output)},
      {"TYPE", "", "the quantization: Q4_K_M, IQ3_XS, ... (see --mixes)",
       into::text(options->type)},
      {"--imatrix", "FILE",
       "importance matrix (made by cria imatrix): columns that matter more are kept "
       "more precise",
       into::text(options->imatrix)},
      {"--calibrate", "FILE",
       "quantize with error feedback, by the inputs that the matrices have on a text; self: a text "
       "that the model writes; may be repeated, and texts alternate",
       into::each(options->calibrate)},
      {"--calibrate-tokens", "N",
       "tokens to calibrate with (default: 43 for each column of the widest matrix)",
       into::number(options->calibrate_tokens, 1, 1 << 30)},
  });
  command.add({
      {"--tensor-type", "REGEX=TYPE",
       "type for matrices whose name matches REGEX; the first match wins; may be repeated",
       into::each(options->tensor_types)},
      {"--output-type", "TYPE", "type of the output matrix", into::text(options->output_type)},
      {"--token-embedding-type", "TYPE", "type of the token embedding",
       into::text(options->embedding_type)},
      {"--pure", "", "no mix: every matrix gets the same type", into::flag(options->pure)},
  });
  command.add({
      {"--allow-requantize", "",
       "accept a model that is already quantized, which loses more than starting from F16",
       into::flag(options->allow_requantize)},
      {"--dry-run", "", "show what would be written, and its exact size",
       into::flag(options->dry_run)},
      {"--mixes", "", "show all quantizations and the rules that make them, and exit",
       into::flag(options->mixes)},
      {"-t,--threads", "N", "threads (default: physical cores)",
       into::number(options->threads, 1, 1024)},
      {"-v,--verbose", "", "print type, size and error of every tensor",
       into::flag(options->verbose)},
      {"--json", "", "print an object with what was written, tensor by tensor, with errors",
       into::flag(options->json)},
  });
  command.notes =
      "Examples:\n"
      "  cria quantize model-F16.gguf Q4_K_M\n"
      "  cria quantize model-F16.gguf small.gguf IQ2_M --imatrix imatrix.gguf\n"
      "  cria quantize model-F16.gguf Q3_K_M --calibrate self --calibrate text.txt\n"
      "  cria quantize model-F16.gguf Q4_K_S --tensor-type 'ffn_(up|gate)=IQ4_XS'\n"
      "  cria quantize --mixes";
  command.run = [options] { return run(*options); };
}

}  // namespace cria::tools
