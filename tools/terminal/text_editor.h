// The user's own editor, for a text of several lines.
#pragma once

#include <string>

namespace cria::tools {

/// The text as $VISUAL or $EDITOR (else vi) leaves it, without newlines at the end; as it was where
/// the editor fails, or there is no place for a temporary file. The terminal is the editor's until
/// it ends.
std::string edit_text(const std::string& text);

}  // namespace cria::tools
