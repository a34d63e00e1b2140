// Rendered text for the tokenizer.
#pragma once

#include <vector>

#include "tokenizer/jinja/values/text.h"
#include "tokenizer/tokenizer.h"

namespace cria {

/// One part per run of one author. They point into the text.
inline std::vector<TextPart> text_parts(const jinja::Text& text) {
  std::vector<TextPart> parts;
  std::size_t begin = 0;
  for (const jinja::Text::Run& run : text.runs()) {
    parts.push_back({std::string_view(text.bytes()).substr(begin, run.end - begin), run.trusted});
    begin = run.end;
  }
  return parts;
}

}  // namespace cria
