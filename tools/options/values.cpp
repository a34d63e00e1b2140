#include "tools/options/values.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <type_traits>
#include <vector>

#include "engine/quantize/plan.h"
#include "kernels/formats/dtype.h"
#include "model/error.h"
#include "model/file/json.h"
#include "model/file/utf8.h"
#include "model/limits.h"
#include "tools/cli/command_line.h"
#include "tools/cli/flag.h"
#include "tools/terminal/terminal.h"

namespace cria::tools {

namespace {

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

/// "Q4KM" of "q4-k_m".
std::string squeezed(const std::string& name) {
  std::string text = upper(name);
  std::erase_if(text, [](char c) { return c == '_' || c == '-'; });
  return text;
}

/// Returns the usual quantization for a name of other programs, such as "int4", "4bit" or "fp16";
/// "" for others.
std::string mix_of_bits(const std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> kMixes[] = {
      {"2", "Q2_K"}, {"3", "Q3_K_M"}, {"4", "Q4_K_M"}, {"5", "Q5_K_M"},     {"6", "Q6_K"},
      {"8", "Q8_0"}, {"16", "F16"},   {"32", "F32"},   {"BFLOAT16", "BF16"}};
  static const std::regex other(R"((?:U?INT|FP|FLOAT|NF|Q|W)?(\d+)(?:BITS?)?(?:A\d+)?|(BFLOAT16))");
  std::smatch parts;
  const std::string wanted = squeezed(name);
  if (wanted == "AWQ" || wanted == "GPTQ") return "Q4_K_M";
  if (!std::regex_match(wanted, parts, other)) return "";
  const std::string bits = parts[1].matched ? parts[1].str() : parts[2].str();
  const auto* const found =
      std::ranges::find(kMixes, bits, [](const auto& row) { return row.first; });
  return found == std::end(kMixes) ? "" : std::string(found->second);
}

/// The name in capitals, without the "UD-" of Unsloth's mixes.
std::string without_prefix(const std::string& name) {
  constexpr std::string_view kDynamic = "UD-";
  const std::string capitals = upper(name);
  return capitals.substr(capitals.starts_with(kDynamic) ? kDynamic.size() : 0);
}

/// Returns the mix nearest to one of others that has a suffix, and what the suffix means; "" for
/// other names.
std::string suffixed_mix(const std::string& name) {
  constexpr std::string_view kLarger = "--token-embedding-type Q8_0 makes its embeddings larger",
                             kRows = "cria interleaves rows itself";
  constexpr std::pair<std::string_view, std::string_view> kSuffixes[] = {
      {"_XL", kLarger}, {"_L", kLarger},
      {"_R4", kRows},   {"_R8", kRows},
      {"_4_4", kRows},  {"_4_8", kRows},
      {"_8_8", kRows},  {"_MOE", "for experts alone: Q8_0 --tensor-type exps=MXFP4"}};
  for (const auto& [suffix, meaning] : kSuffixes) {
    if (!name.ends_with(suffix)) continue;
    const std::string plain = name.substr(0, name.size() - suffix.size());
    const Mix* const mix = find_mix(plain == "Q8_K" ? "Q8_0" : plain);
    if (mix != nullptr)
      return "; did you mean " + std::string(mix->name) + "? (" + std::string(meaning) + ")";
  }
  return "";
}

std::string unknown_text(const std::string& what, const std::string& name,
                         const std::vector<std::string>& names) {
  const std::string plain = without_prefix(name);
  const auto same = std::ranges::find(names, squeezed(plain), squeezed);
  return "unknown " + what + " " + name + suggestion(same == names.end() ? plain : *same, names) +
         " (known: " + joined(names) + ")";
}

}  // namespace

std::vector<std::string> weight_type_names() {
  std::vector<std::string> names;
  constexpr std::uint32_t kIds = 256;  // more than the format has
  for (std::uint32_t id = 0; id < kIds; ++id)
    if (const DTypeInfo* type = find_dtype(id); type != nullptr && type->dot != DotClass::None)
      names.emplace_back(type->name);
  return names;
}

std::vector<std::string> mix_names() {
  std::vector<std::string> names;
  for (const Mix& mix : mixes()) names.emplace_back(mix.name);
  return names;
}

std::string unknown_type_text(const std::string& name) {
  return unknown_text("tensor type", name, weight_type_names());
}

std::string unknown_mix_text(const std::string& name) {
  const auto numbered = std::ranges::find(mixes(), name, [](const Mix& mix) {
    return std::to_string(mix.file_type);  // as llama-quantize takes it
  });
  if (numbered != mixes().end())
    return "unknown quantization " + name + "; did you mean " + std::string(numbered->name) + "?";
  if (upper(name) == "COPY") return "nothing to quantize: cp copies a model, cria merge its parts";
  const std::string mix = mix_of_bits(name);
  if (!mix.empty())
    return "unknown quantization " + name + "; did you mean " + mix +
           "? (cria quantize --mixes lists them)";
  if (const std::string near = suffixed_mix(without_prefix(name)); !near.empty())
    return "unknown quantization " + name + near;
  return unknown_text("quantization", name, mix_names());
}

std::uint64_t parse_size(const std::string& option, const std::string& text) {
  const UsageError wrong(option, "expected a size (2G, 500MB, 4.6GiB), got " + text);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit = lower_case({end, text.data() + text.size()});
  if (error != std::errc() || !(number > 0) || !std::isfinite(number)) throw wrong;
  unit.erase(0, unit.find_first_not_of(' ') == std::string::npos ? unit.size()
                                                                 : unit.find_first_not_of(' '));
  constexpr std::string_view kUnits = "kmgt";
  const bool bytes = unit.empty() || unit == "b";
  const std::size_t power = bytes ? 0 : kUnits.find(unit[0]) + 1;
  const std::string rest = bytes ? "" : unit.substr(1);
  if ((!bytes && power == 0) || (!rest.empty() && rest != "b" && rest != "ib")) throw wrong;
  for (std::size_t i = 0; i < power; ++i) number *= rest == "ib" ? 1024 : 1000;
  constexpr double kTooLarge = 0x1p63;
  if (number < 1 || number >= kTooLarge) throw wrong;
  return static_cast<std::uint64_t>(number);
}

namespace {

/// An error in a value; the caller adds the name of the option.
struct Refusal {
  std::string message;
};

[[noreturn]] void refuse(std::string_view expected, std::string_view got) {
  throw Refusal{"expected " + std::string(expected) + ", got " + printable(got.substr(0, 80))};
}

std::optional<GgufType> find_scalar(std::string_view wanted) {
  for (auto id = static_cast<unsigned>(GgufType::U8); id <= static_cast<unsigned>(GgufType::F64);
       ++id) {
    const auto type = static_cast<GgufType>(id);
    if (name(type) == wanted && type != GgufType::Array) return type;
  }
  return std::nullopt;
}

template <class T>
GgufData parse_number(std::string_view text) {
  T number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  bool good = error == std::errc() && rest == end;
  if constexpr (std::is_floating_point_v<T>) good = good && std::isfinite(number);
  if (!good) refuse("a value of type " + std::string(name(GgufData(T()).type())), text);
  return number;
}

GgufData parse_scalar(GgufType type, std::string_view text) {
  switch (type) {
    case GgufType::U8:
      return parse_number<std::uint8_t>(text);
    case GgufType::I8:
      return parse_number<std::int8_t>(text);
    case GgufType::U16:
      return parse_number<std::uint16_t>(text);
    case GgufType::I16:
      return parse_number<std::int16_t>(text);
    case GgufType::U32:
      return parse_number<std::uint32_t>(text);
    case GgufType::I32:
      return parse_number<std::int32_t>(text);
    case GgufType::U64:
      return parse_number<std::uint64_t>(text);
    case GgufType::I64:
      return parse_number<std::int64_t>(text);
    case GgufType::F32:
      return parse_number<float>(text);
    case GgufType::F64:
      return parse_number<double>(text);
    case GgufType::Bool:
      if (text != "true" && text != "false") refuse("true or false", text);
      return text == "true";
    default:
      return std::string(text);
  }
}

/// depth: how many arrays are around the scalars.
GgufData parse_json(GgufType scalar, int depth, const Json& json) {
  if (depth == 0) {
    const bool fits = scalar == GgufType::String ? json.is_string()
                      : scalar == GgufType::Bool ? json.is_boolean()
                                                 : json.is_number();
    if (!fits) refuse("elements of type " + std::string(name(scalar)), json.dump());
    return parse_scalar(scalar, json.is_string() ? json.get<std::string>() : json.dump());
  }
  if (!json.is_array()) refuse("a JSON array", json.dump());
  GgufArray array{.element = depth > 1 ? GgufType::Array : scalar, .values = {}};
  for (const Json& element : json) array.values.push_back(parse_json(scalar, depth - 1, element));
  return array;
}

GgufData parse_array(GgufType scalar, int depth, const std::string& text) {
  try {
    return parse_json(scalar, depth, Json::parse(text));
  } catch (const Json::exception&) {  // no JSON, text that is not UTF-8, or a number
                                      // beyond all types
    refuse("a JSON array", text);
  }
}

std::pair<std::string, GgufData> parse(const std::string& text) {
  const std::size_t equals = text.find('='), colon = text.find(':', equals);
  if (equals == 0 || equals == std::string::npos || colon == std::string::npos)
    refuse("KEY=TYPE:VALUE, such as general.name=string:cria", text);
  std::string_view type(text.data() + equals + 1, colon - equals - 1);
  int depth = 0;
  for (; type.ends_with("[]"); type.remove_suffix(2)) ++depth;
  const auto scalar = find_scalar(type);
  if (!scalar || depth > limits::kArrayDepth)
    refuse(
        "a type (u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool string, and [] behind it for an array)",
        std::string_view(text).substr(equals + 1, colon - equals - 1));
  const std::string value = text.substr(colon + 1);
  return {text.substr(0, equals),
          depth == 0 ? parse_scalar(*scalar, value) : parse_array(*scalar, depth, value)};
}

}  // namespace

std::pair<std::string, GgufData> parse_metadata(const std::string& option,
                                                const std::string& text) {
  try {
    return parse(text);
  } catch (const Refusal& refusal) {
    throw UsageError(option, refusal.message);
  }
}

SyntheticSpec parse_synthetic(const std::string& spec) {
  const auto wrong = [](const std::string& what) { return Error("", what); };
  const std::size_t colon = spec.find(':');
  if (colon == std::string::npos)
    throw wrong("expected SHAPE:TYPE, for example 1.1b:Q4_K, got " + spec);
  const std::string shape = spec.substr(0, colon), type = spec.substr(colon + 1);
  std::vector<std::string> shapes;
  for (const ModelShape& known : model_shapes()) shapes.push_back(known.name);
  if (std::ranges::find(shapes, shape) == shapes.end())
    throw wrong("unknown shape " + shape + suggestion(shape, shapes) +
                " (known: " + joined(shapes) + ")");
  const DTypeInfo* info = find_dtype(std::string_view(type));
  if (info == nullptr || info->dot == DotClass::None) throw wrong(unknown_type_text(type));
  return {find_shape(shape), *info};
}

SyntheticFile::SyntheticFile(const std::string& spec, const std::string& keep, Weights weights)
    : path_(keep) {
  const auto [shape, type] = parse_synthetic(spec);
  if (keep.empty())
    path_ = (std::filesystem::temp_directory_path() /
             ("cria-bench-" + std::to_string(getpid()) + "-" + std::string(type.name) + ".gguf"))
                .string();
  if (weights == Weights::Random)
    write_synthetic(shape, type.id, path_);
  else
    write_hollow(shape, type.id, path_);
  if (keep.empty()) forget_name();
}

SyntheticFile::~SyntheticFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void SyntheticFile::forget_name() {
  descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  const int failed = descriptor_ < 0 ? errno : 0;
  unlink(path_.c_str());
  if (failed != 0) throw Error(path_, std::string("cannot be opened: ") + std::strerror(failed));
  path_ = "/proc/" + std::to_string(getpid()) + "/fd/" +
          std::to_string(descriptor_);  // other ranks open it, too
}

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kLongestPrompt = 64 << 20;  // bytes: more than any context holds

void require_prompt_size(std::uint64_t bytes, const std::string& name) {
  if (bytes > kLongestPrompt)
    throw Error(name, "too large for a prompt: expected at most " + std::to_string(kLongestPrompt) +
                          " bytes, got " + std::to_string(bytes));
}

void read_stream(std::FILE* stream, const std::string& name,
                 const std::function<void(std::string_view)>& sink) {
  constexpr std::size_t kPiece = 1 << 20;
  std::string buffer(kPiece, '\0');
  for (;;) {
    if (!wait_readable(fileno(stream))) throw Interrupted();
    const ssize_t n =
        ::read(fileno(stream), buffer.data(), buffer.size());  // only what has arrived
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) throw Error(name, std::string("cannot be read: ") + std::strerror(errno));
    if (n == 0) return;
    sink(std::string_view(buffer).substr(0, static_cast<std::size_t>(n)));
  }
}

/// A text without the byte order mark of UTF-8. Throws Error if it is UTF-16.
std::string without_byte_order_mark(std::string text, const std::string& name) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    throw Error(name, "the text is UTF-16; iconv -f UTF-16 -t UTF-8 converts it");
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  return text;
}

}  // namespace

void read_pieces(const std::string& path, const std::function<void(std::string_view)>& sink) {
  if (path == "-") {
    if (is_terminal(stdin)) print_line("cria: reading the text from the terminal; Ctrl-D ends it");
    return read_stream(stdin, "stdin", sink);
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (file == nullptr) throw Error(path, std::string("cannot be opened: ") + std::strerror(errno));
  read_stream(file.get(), path, sink);
}

std::string read_file(const std::string& path) {
  std::string bytes;
  read_pieces(path, [&](std::string_view piece) { bytes += piece; });
  return without_byte_order_mark(std::move(bytes), input_name(path));
}

std::string input_name(const std::string& path) { return path == "-" ? "stdin" : path; }

namespace {

/// A file of a prompt, or stdin.
std::string read_prompt_file(const std::string& path) {
  const std::string name = input_name(path);
  std::error_code unknown;  // for example of a pipe
  const std::uintmax_t size = fs::file_size(path == "-" ? "/dev/stdin" : path, unknown);
  if (!unknown) require_prompt_size(size, name);
  std::string bytes;
  read_pieces(path, [&](std::string_view piece) {
    bytes += piece;
    require_prompt_size(bytes.size(), name);
  });
  return without_byte_order_mark(std::move(bytes), name);
}

}  // namespace

Flags TextInput::flags(const std::string& what) {
  return {{"-p,--prompt", "TEXT", what, into::once(into::text(text))},
          {"-f,--file",
           "FILE",
           what + ", from a file (-: stdin, the default); several are read in order",
           into::each(files),
           {.excludes = "--prompt"}}};
}

std::string TextInput::read(bool lines) const {
  if (text) return *text;
  std::string all;
  for (const std::string& file : files.empty() ? Words{"-"} : files) {
    if (lines && !all.empty() && !all.ends_with('\n')) all += '\n';
    all += read_prompt_file(file);
    require_prompt_size(all.size(), input_name(file));
  }
  return all;
}

void remove_last_newline(std::string& text) {
  if (!text.ends_with('\n')) return;
  text.resize(text.size() - (text.ends_with("\r\n") ? 2 : 1));
}

bool is_stdin(const std::string& file) {
  return file == "-" || file == "/dev/stdin" || file == "/dev/fd/0" || file == "/proc/self/fd/0";
}

void note_unread_stdin(const std::string& option, const Words& files) {
  if (!files.empty() && std::ranges::none_of(files, is_stdin) && has_piped_stdin())
    print_note("stdin is not read: " + option + " names what is (- means stdin)");
}

std::string after_piped_stdin(const std::string& text) {
  struct stat input = {};
  if (fstat(STDIN_FILENO, &input) != 0 ||
      !(S_ISREG(input.st_mode) || S_ISFIFO(input.st_mode) || S_ISSOCK(input.st_mode)))
    return text;
  pollfd ready = {STDIN_FILENO, POLLIN, 0};
  constexpr int kMilliseconds = 1000;
  if (poll(&ready, 1, kMilliseconds) == 0)
    print_note("waiting for stdin, which comes before the text (< /dev/null leaves it out)");
  const bool begun = S_ISREG(input.st_mode) && lseek(STDIN_FILENO, 0, SEEK_CUR) > 0;
  std::string before = TextInput().read();
  remove_last_newline(before);
  if (begun && !before.empty())  // `while read -r line; do cria run "$line"; done < lines`
    print_note(
        "the rest of stdin comes before the text; a loop that reads lines needs < /dev/null");
  return before.empty() ? text : before + "\n\n" + text;
}

bool has_piped_stdin() {
  struct stat input = {};
  if (fstat(STDIN_FILENO, &input) != 0) return false;
  if (S_ISREG(input.st_mode)) return input.st_size > 0 && lseek(STDIN_FILENO, 0, SEEK_CUR) == 0;
  int bytes = 0;
  return (S_ISFIFO(input.st_mode) || S_ISSOCK(input.st_mode)) &&
         ioctl(STDIN_FILENO, FIONREAD, &bytes) == 0 && bytes > 0;
}

void TextInput::read_pieces(const std::function<void(std::string_view)>& sink) const {
  if (text) return sink(*text);
  for (const std::string& file : files.empty() ? Words{"-"} : files) tools::read_pieces(file, sink);
}

std::vector<TokenId> parse_ids(std::string_view text, std::size_t n_vocab) {
  constexpr std::string_view kSeparators = "[, \t\r\n]";
  std::vector<TokenId> ids;
  for (std::size_t at = text.find_first_not_of(kSeparators); at != std::string_view::npos;) {
    const std::string_view word = text.substr(at, text.find_first_of(kSeparators, at) - at);
    TokenId id = -1;
    const auto [end, bad] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (bad != std::errc() || end != word.data() + word.size() || id < 0 ||
        static_cast<std::size_t>(id) >= n_vocab)
      throw Error("", "not a token id: expected 0 to " + std::to_string(n_vocab - 1) + ", got " +
                          std::string(word.substr(0, 40)));
    ids.push_back(id);
    at = text.find_first_not_of(kSeparators, at + word.size());
  }
  return ids;
}

}  // namespace cria::tools
