// Metadata written on the command line: KEY=TYPE:VALUE.
#pragma once

#include <string>
#include <utility>

#include "model/gguf/writer.h"

namespace cria::tools {

/// TYPE is one of GGUF's (u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool string), with [] behind it for
/// an array (twice: an array of arrays). VALUE: a decimal number that the type can hold, true or
/// false, or a text as it is; of an array: JSON. Throws a usage error that names the option for
/// anything else.
std::pair<std::string, GgufData> parse_metadata(const std::string& option, const std::string& text);

}  // namespace cria::tools
