// Jinja2 as chat templates use it: the public header of tokenizer/jinja/.
//
// The language is described at https://jinja.palletsprojects.com/en/stable/templates/; as in
// Hugging Face's chat templates blocks are trimmed (trim_blocks, lstrip_blocks), break and continue
// are there, so are the functions raise_exception and strftime_now, values cannot be changed but
// for namespaces, and tojson escapes no HTML; nor does anything else, so `safe` changes nothing.
// There is no access to files or other templates.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>

#include "tokenizer/jinja/values/budget.h"
#include "tokenizer/jinja/values/value.h"

namespace cria::jinja {

/// A parsed template. Immutable; copies share.
class Template {
 public:
  /// Throws Error with line and column; name: the file or what else it should be called there.
  static Template parse(std::string_view source, std::string name);

  /// variables: by name (texts). Throws Error with line and column where Jinja2 would raise, or
  /// where a limit is met.
  [[nodiscard]] Text render(const Dict& variables, const std::tm& now,
                            const Limits& limits = {}) const;
  /// Whether a variable of this name is read somewhere.
  [[nodiscard]] bool reads(std::string_view variable) const;
  /// Whether a member of this name may be: as an attribute, or by a text.
  [[nodiscard]] bool reads_member(std::string_view name) const;

 private:
  struct Parsed;
  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace cria::jinja
