// `cria quantize`: quantizes a model.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/file/json.h"
#include "model/plural.h"
#include "tools/commands/commands.h"
#include "tools/commands/quantize_job.h"
#include "tools/model_store.h"
#include "tools/options/values.h"
#include "tools/report/table.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {
namespace {

struct QuantizeCommand {
  std::string input, output, type, output_type, embedding_type, plan, save_plan;
  std::vector<std::string> tensor_types;
  bool plain = false;
  QuantizeSources sources;
  Budget budget;
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

/// Adds the types of REGEX=TYPE,REGEX=TYPE…; a comma without "=" before it belongs to the
/// expression.
void add_tensor_types(const std::string& text, QuantizeOptions& options) {
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t comma = text.find(',', std::min(text.find('=', begin), text.size()));
    const std::string part = text.substr(begin, comma - begin);
    begin = std::min(comma, text.size()) + 1;
    const std::size_t equals = part.rfind('=');
    if (equals == std::string::npos)
      throw UsageError("--tensor-type", "expected REGEX=TYPE, got " + part);
    try {
      options.tensor_types.emplace_back(Regex(std::string_view(part).substr(0, equals)),
                                        parse_type("--tensor-type", part.substr(equals + 1)));
    } catch (const Error& error) {
      throw UsageError("--tensor-type", error.what());
    }
  }
}

QuantizeOptions parse(const QuantizeCommand& command) {
  QuantizeOptions options;
  if (!command.type.empty()) {
    options.mix = find_mix(command.type);
    if (options.mix == nullptr) throw UsageError("TYPE", unknown_mix_text(command.type));
  }
  options.pure = command.pure;
  options.allow_requantize = command.allow_requantize;
  options.weighted = !command.sources.imatrix.empty() || !command.sources.calibrate.empty();
  if (!command.output_type.empty())
    options.output_type = parse_type("--output-type", command.output_type);
  if (!command.embedding_type.empty())
    options.token_embedding_type = parse_type("--token-embedding-type", command.embedding_type);
  for (const std::string& text : command.tensor_types) add_tensor_types(text, options);
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
std::string derived_output(const std::string& input, std::string_view quantization) {
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
  return (path.parent_path() / (stem + "-" + std::string(quantization) + ".gguf")).string();
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
  return tensor.type == tensor.source->dtype ? from : from + " → " + std::string(name(tensor.type));
}

/// All mixes; with a file also its size and bits per weight in each.
std::string mixes_text(const GgufFile* file) {
  std::vector<std::string> headings = {"quantization", "main type", ">its bits per weight"};
  if (file != nullptr) headings.insert(headings.end(), {">bits in all", ">weights"});
  headings.emplace_back("");
  Table table(headings);
  for (const Mix& mix : mixes()) {
    const DTypeInfo& type = dtype_info(mix.type);
    std::vector<std::string> row = {std::string(mix.name), std::string(type.name),
                                    fixed(8.0 * type.block_bytes / type.block_values, 2)};
    if (file != nullptr) {
      QuantizeOptions options;
      options.mix = &mix;
      options.allow_requantize = true;
      const QuantizePlan plan = plan_quantize(*file, options);
      std::uint64_t bytes = 0;
      for (const PlannedTensor& tensor : plan.tensors) bytes += tensor.bytes();
      row.insert(row.end(), {fixed(BitsPerWeight(plan).after, 2), human_bytes(bytes)});
    }
    row.emplace_back(mix.name == "Q4_K_M"                     ? "recommended"
                     : advice_without_importance(mix).empty() ? ""
                                                              : "needs --imatrix or --calibrate");
    table.add(row);
  }
  return table.text(stdout) +
         (file == nullptr ? "\nWith IN, the table has the sizes of this model. " : "\n") +
         "With -v, the rules by which each tensor gets its type follow.\n";
}

std::string rules_text() {
  Table rules({"tensors", "layers", "models", "type", "quantizations"});
  for (const MixRule& rule : mix_rules())
    rules.add({std::string(rule.tensors), std::string(name(rule.layers)),
               std::string(name(rule.models)), std::string(name(rule.type)),
               rule.mixes == "*" ? "all that quantize" : std::string(rule.mixes)});
  Table stand_ins({"type", "where rows do not divide into its blocks"});
  for (const Fallback& fallback : fallbacks())
    stand_ins.add({std::string(name(fallback.from)), std::string(name(fallback.to))});
  return "\nThe first rule that fits a tensor gives its type; without one it gets the main type. "
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
      : command_(command),
        options_(parse(command)),
        job_(command.input, command.sources, command.threads) {
    for (const std::string& warning : job_.file().warnings()) print_warning(warning);
    require_other_file(job_.file(), command.output);
    require_other_file(command.sources.imatrix, command.output);
    require_other_state();
    if (options_.mix != nullptr) advise_importance();
    plan_ = chosen_plan();
    writer_.emplace(command.output, job_.file().alignment());
    job_.declare(*writer_, plan_);
    if (!command.save_plan.empty()) save_plan();
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
  void advise_importance() const {
    const std::string_view advice = advice_without_importance(*options_.mix);
    if (!advice.empty() && !job_.weighted())
      print_warning(std::string(options_.mix->name) + ": " + std::string(advice));
  }

  void require_other_state() const {
    const std::string& state = command_.sources.state;
    namespace fs = std::filesystem;
    if (state.empty()) return;
    if (fs::weakly_canonical(fs::absolute(state)) ==
        fs::weakly_canonical(fs::absolute(command_.output)))
      throw Error(state, "cannot be both OUT and --state: another name is needed");
    require_other_file(job_.file(), state);
  }

  void note_large_budget() const {
    const std::uint64_t have = job_.file().file_bytes();
    if (!command_.budget.size.empty() && parse_size("--size", command_.budget.size) >= have)
      print_note("--size " + command_.budget.size + " is not below the size of IN (" +
                 human_bytes(have) + "): every tensor gets the best of --types");
  }

  QuantizePlan chosen_plan() {
    note_large_budget();
    if (command_.budget.given()) return job_.plan(options_, command_.budget);
    if (command_.plain) return job_.plain_plan(options_);
    if (command_.plan.empty()) return plan_quantize(job_.file(), options_);
    return job_.plan(options_,
                     read_type_plan(read_file(command_.plan), job_.file(), command_.plan));
  }

  void save_plan() const {
    OutputFile file(command_.save_plan);
    file.write(type_plan_text(plan_, std::to_string(writer_->file_bytes()) + " bytes" +
                                         (command_.budget.given() ? ", " + predicted() : "")));
    file.finish();
  }

  void write() {
    const bool measure = command_.verbose || command_.json;
    job_.write(plan_, *writer_, command_.verbose, measure,
               [&](const PlannedTensor& tensor, const std::optional<QuantizeError>& error) {
                 errors_.push_back(error);
                 if (command_.verbose) say(tensor, error);
               });
  }

  [[nodiscard]] std::string predicted() const {
    return "predicted KL divergence " + significant(job_.predicted()) +
           (command_.sources.calibrate.empty() ? "" : ", of which --calibrate leaves about half");
  }

  void say(const PlannedTensor& tensor, const std::optional<QuantizeError>& error) const {
    const bool unweighted = error && job_.lacks_importance(tensor.source->name);
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
    std::string text =
        without_controls(command_.output) + (command_.dry_run ? " (not written): " : ": ") +
        quantization() + ", " + counted(bytes, "byte") + " (" + human_bytes(bytes) + "), " +
        fixed(bits.after, 2) +
        " bits per weight; before: " + human_bytes(job_.file().file_bytes()) + ", " +
        fixed(bits.before, 2) + (command_.budget.given() ? "; " + predicted() : "") + "\n";
    if (fallen_back > 0)
      text += std::to_string(fallen_back) + " of " + counted(plan_.tensors.size(), "tensor") +
              (fallen_back == 1 ? " has" : " have") +
              " another type, because rows are not a multiple of the block size\n";
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
    Json object = {{"output", command_.output},
                   {"file", command_.output},
                   {"type", quantization()},
                   {"file_type", plan_.mix->file_type},
                   {"bytes", bytes},
                   {"input_bytes", job_.file().file_bytes()},
                   {"bits_per_weight", BitsPerWeight(plan_).after},
                   {"written", !command_.dry_run},
                   {"tensors", tensors}};
    if (command_.budget.given()) object["predicted_kld"] = job_.predicted();
    return object;
  }

  /// "Q4_K_M"
  [[nodiscard]] std::string quantization() const {
    return options_.mix != nullptr ? std::string(options_.mix->name) : "types by tensor";
  }

  const QuantizeCommand& command_;
  QuantizeOptions options_;
  QuantizeJob job_;
  QuantizePlan plan_;
  std::optional<GgufWriter> writer_;
  std::vector<std::optional<QuantizeError>> errors_;
};

std::string misplaced_type(const std::string& type) {
  return type + " is a quantization, not a file; the order is IN OUT TYPE";
}

int run(QuantizeCommand command) {
  if (command.mixes) {
    if (command.json) return write_stdout(json_text(mixes_json())), 0;
    std::optional<GgufFile> file;
    if (!command.input.empty()) file.emplace(GgufFile::open(find_model(command.input)));
    write_text(mixes_text(file ? &*file : nullptr) + (command.verbose ? rules_text() : ""));
    return 0;
  }
  if (std::error_code error;
      find_mix(command.input) != nullptr && !std::filesystem::exists(command.input, error))
    throw UsageError(command.output.empty()
                         ? "IN is missing; cria quantize IN [OUT] " + command.input
                         : misplaced_type(command.input));
  const std::string named = std::exchange(command.input, find_model(command.input));
  const bool chosen = command.budget.given() || !command.plan.empty() || command.plain;
  if (command.type.empty() && !chosen && !command.output.empty() &&
      command.output.find('.') == std::string::npos)
    command.type = std::exchange(command.output, {});
  const bool swapped = find_mix(command.output) != nullptr;
  if (swapped && !chosen) throw UsageError(misplaced_type(command.output));
  if (chosen && (swapped || !command.type.empty()))
    throw UsageError("TYPE",
                     "--size, --bits, --plan and --plain choose types themselves: leave it out");
  if (command.output.empty()) {
    std::string quantization = command.budget.given() ? command.budget.text() : "";
    if (const Mix* const mix = find_mix(command.type); mix != nullptr) quantization = mix->name;
    if (!quantization.empty()) {
      command.output = derived_output(command.input, quantization);
      if (named != command.input)  // a model of cria list, whose directory is another program's
        command.output = std::filesystem::path(command.output).filename().string();
      if (!command.dry_run) require_absent(command.output);
    } else if (!command.plan.empty()) {
      throw UsageError("OUT is missing; cria quantize IN OUT --plan FILE");
    } else if (command.plain) {
      throw UsageError("OUT is missing; cria quantize IN OUT --plain");
    }
  }
  if (command.type.empty() && !chosen)
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
  });
  command.add(source_flags(options->sources));
  command.add({
      {"--state",
       "FILE",
       "keep finished matrices of --calibrate here; run again with the same arguments to continue",
       into::text(options->sources.state),
       {.needs = "--calibrate"}},
  });
  command.add({
      {"--size",
       "SIZE",
       "in place of TYPE: choose the type of each tensor so that the file has at most this size "
       "(4.6GiB, 500MB) and diverges least from IN",
       into::text(options->budget.size),
       {.excludes = "--bits,--plan,--pure", .needs = "--imatrix,--calibrate"}},
      {"--bits",
       "N",
       "the same with at most N bits per weight, without metadata",
       into::number(options->budget.bits, 0.1, 32),
       {.excludes = "--size,--plan,--pure", .needs = "--imatrix,--calibrate"}},
      {"--types",
       "K|all|TYPE,TYPE...",
       "types for --size and --bits. K: Q2_K to Q6_K and Q8_0; all: the IQ types, too",
       into::text(options->sources.types),
       {.needs = "--size,--bits"}},
      {"--save-plan", "FILE", "write the types of tensors to a text file that --plan reads",
       into::output_file(options->save_plan)},
      {"--plan",
       "FILE",
       "in place of TYPE: the types of tensors, a line \"TENSOR TYPE\" for each",
       into::text(options->plan),
       {.excludes = "--pure"}},
      {"--plain",
       "",
       "in place of TYPE: all types stay, but rows of interleaved ones (IQ4_K_R4, ...) are put in "
       "order, which changes no value and spares memory when the model is loaded (only cria reads "
       "what IQ1_M_R4 becomes)",
       into::flag(options->plain),
       {.excludes = "--pure,--plan,--size,--bits"}},
  });
  command.add({
      {"--tensor-type", "REGEX=TYPE,...",
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
      {"--dry-run", "",
       "show what would be written, its exact size, and with --size or --bits the divergence to "
       "expect",
       into::flag(options->dry_run)},
      {"--mixes", "",
       "show all quantizations, with the sizes of IN, and exit; -v: their rules, too",
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
      "  cria quantize model-F16.gguf small.gguf --size 4.6GiB --calibrate text.txt\n"
      "  cria quantize model-IQ4_K_R4.gguf plain.gguf --plain\n"
      "  cria quantize --mixes";
  command.run = [options] { return run(*options); };
}

}  // namespace cria::tools
