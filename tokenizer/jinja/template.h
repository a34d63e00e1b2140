// Jinja2 as chat templates use it: the public header of tokenizer/jinja/.
//  The language is described at https://jinja.palletsprojects.com/en/stable/templates/. As in
//  Hugging Face's chat templates, blocks are trimmed (trim_blocks, lstrip_blocks), and break,
//  continue, raise_exception and strftime_now exist. Values are immutable except namespaces. HTML
//  is escaped only where Jinja2 does without autoescape: what is added to the result of `safe` or
//  `escape`. Files and other templates are not accessible.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>

#include "model/error.h"
#include "tokenizer/jinja/values/budget.h"
#include "tokenizer/jinja/values/value.h"

namespace cria::jinja {

/// A template spent more than its limits: it would for a similar conversation, too.
class LimitError : public Error {
 public:
  using Error::Error;
};

/// A parsed template. Immutable; copies share.
class Template {
 public:
  /// Throws Error with line and column; name: the file or what else it should be called there.
  static Template parse(std::string_view source, std::string name);

  /// variables: by name (texts). Throws Error with line and column where Jinja2 would raise, or if
  /// a limit is exceeded (LimitError).
  [[nodiscard]] Text render(const Dict& variables, const std::tm& now,
                            const Limits& limits = {}) const;
  /// True if the template reads a variable of this name.
  [[nodiscard]] bool reads(std::string_view variable) const;
  /// True if the template may read a member of this name, as an attribute or by a string.
  [[nodiscard]] bool reads_member(std::string_view name) const;

 private:
  struct Parsed;
  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace cria::jinja
