// The tokenizer files of a Hugging Face directory: tokenizer.model or tokenizer.json,
// tokenizer_config.json, special_tokens_map.json, added_tokens.json, generation_config.json,
// chat_template.jinja, additional_chat_templates/.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/gguf/writer.h"
#include "tokenizer/hf/formats.h"

namespace cria {

struct HfVocabularyOptions {
  std::size_t tokens = 0;            ///< rows of the embedding
  std::string pre;                   ///< name of the pre-tokenizer; "": detected by its expressions
  std::optional<std::uint32_t> bos;  ///< from config.json, if the tokenizer's files lack it
  std::vector<std::uint32_t> eos;
  bool listed_merges = false;  ///< a byte-fallback tokenizer.json becomes a "gemma4" vocabulary
};

/// Further chat templates by name ("tool_use").
using NamedTemplates = std::vector<std::pair<std::string, std::string>>;

struct HfVocabulary {
  VocabularyBuilder builder;
  NamedTemplates templates;

  [[nodiscard]] const Vocabulary& vocabulary() const { return builder.vocabulary(); }
};

/// Reads a directory's tokenizer. Throws Error naming the file at fault, and if none is readable.
HfVocabulary read_hf_vocabulary(const std::string& directory, const HfVocabularyOptions& options);

/// Sets the tokenizer.* keys.
void set_vocabulary(GgufWriter& writer, const HfVocabulary& vocabulary);

/// A file to write into a directory.
struct TextFile {
  std::string name, content;
};
/// The named templates of a GGUF file.
NamedTemplates named_templates(const GgufFile& file);
/// The tokenizer files of a GGUF file's vocabulary. Throws Error for unsupported vocabularies.
std::vector<TextFile> hf_vocabulary_files(const Vocabulary& vocabulary,
                                          const NamedTemplates& templates = {});

}  // namespace cria
