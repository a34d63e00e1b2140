// Values of flags: input files, token ids, tensor types, sizes, metadata, synthetic models.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/synthetic/synthetic.h"
#include "model/gguf/writer.h"
#include "tokenizer/tokenizer.h"
#include "tools/cli/flag.h"

namespace cria::tools {

/// Names of the types that matrices can have, and of the quantizations, as the program writes them.
std::vector<std::string> weight_type_names();
std::vector<std::string> mix_names();

/// "unknown tensor type Q9_Z; did you mean …? (known: …)", and the same for quantizations.
std::string unknown_type_text(const std::string& name);
std::string unknown_mix_text(const std::string& name);

/// Bytes of "2G", "500MB" (powers of 1000) or "5MiB" (powers of 1024), in any case. Throws a usage
/// error that names the option.
std::uint64_t parse_size(const std::string& option, const std::string& text);

/// TYPE is one of GGUF's (u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool string), with [] behind it for
/// an array (twice: an array of arrays). VALUE: a decimal number that the type can hold, true or
/// false, or a text as it is; of an array: JSON. Throws a usage error that names the option for
/// anything else.
std::pair<std::string, GgufData> parse_metadata(const std::string& option, const std::string& text);

struct SyntheticSpec {
  const ModelShape& shape;
  const DTypeInfo& type;
};

/// "1.1b:Q4_K". Throws Error that lists what there is.
SyntheticSpec parse_synthetic(const std::string& spec);

/// A synthetic model's file: kept where the user said, else gone with this object, and with the
/// process whatever ends it.
class SyntheticFile {
 public:
  enum class Weights {
    Random,
    Holes,  ///< all are 0, and take no place on the disk: for what does not depend on them
  };
  /// keep: a path; "": among the temporary files, and from then on without a name. Throws Error.
  SyntheticFile(const std::string& spec, const std::string& keep,
                Weights weights = Weights::Random);
  ~SyntheticFile();
  SyntheticFile(const SyntheticFile&) = delete;
  SyntheticFile& operator=(const SyntheticFile&) = delete;
  /// For any process of this user on this machine.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void forget_name();

  std::string path_;
  int descriptor_ = -1;  // keeps a file without a name
};

/// Returns a text without a byte order mark; "-": stdin. Throws Error, also for UTF-16.
std::string read_file(const std::string& path);
std::string input_name(const std::string& path);  ///< as errors have it: "-" is "stdin"
/// A file (or stdin) as it comes, in pieces of at most 1 MiB. Throws Error.
void read_pieces(const std::string& path, const std::function<void(std::string_view)>& sink);
/// Removes the newline (or CR LF) that files and `echo` end with.
void remove_last_newline(std::string& text);
/// Prints a note if stdin has text that nothing reads, since `option` names files.
void note_unread_stdin(const std::string& option, const Words& files);
/// Returns the rest of stdin, if it is a file, a pipe or a socket, then a blank line and the text;
/// the text alone if nothing comes. Prints what it waits for if nothing arrives within a second.
/// Throws Error for more than 64 MiB.
std::string after_piped_stdin(const std::string& text);
/// True if stdin has text now and none of it was read; it does not wait.
bool has_piped_stdin();
/// True for "-" and the names that the system has for stdin.
bool is_stdin(const std::string& file);
/// The input of a subcommand that takes -p TEXT, -f FILE or stdin.
struct TextInput {
  std::optional<std::string> text;
  Words files;                           ///< read one after another, as `cat` does; none: stdin
  Flags flags(const std::string& what);  ///< -p, -f
  /// lines: the end of a file ends its last line.
  [[nodiscard]] std::string read(bool lines = false) const;
  /// In pieces, as it comes.
  void read_pieces(const std::function<void(std::string_view)>& sink) const;
};

/// Token ids separated by commas or white space. Throws Error if one is not in the vocabulary.
std::vector<TokenId> parse_ids(std::string_view text, std::size_t n_vocab);

}  // namespace cria::tools
