// Values as Python prints them.
#include <charconv>
#include <cmath>
#include <cstdio>

#include "model/file/utf8.h"
#include "tokenizer/jinja/values/unicode.h"
#include "tokenizer/jinja/values/value.h"

namespace cria::jinja {
namespace {

std::string escaped(const Utf8Char& c, unsigned char byte) {
  const std::uint32_t code = c.valid ? std::uint32_t{c.code_point} : byte;
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  char out[12];
  std::snprintf(out, sizeof out,
                code < 0x100     ? "\\x%02x"
                : code < 0x10000 ? "\\u%04x"
                                 : "\\U%08x",
                code);
  return out;
}

Text repr_text(const Text& text) {
  const std::string& bytes = text.bytes();
  const bool single = bytes.find('\'') == std::string::npos || bytes.find('"') != std::string::npos;
  const char quote = single ? '\'' : '"';
  Text out(std::string(1, quote), true);
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Char c = first_char(std::string_view(bytes).substr(at));
    if (bytes[at] == quote || bytes[at] == '\\')
      out.append(std::string{'\\', bytes[at]}, text.trusted_at(at));
    else if (c.valid && is_printable(c.code_point))
      out.append(text, at, at + c.bytes);
    else
      out.append(escaped(c, static_cast<unsigned char>(bytes[at])), text.trusted_at(at));
    at += c.bytes;
  }
  out.append(std::string(1, quote), true);
  return out;
}

Text repr_items(const List& list) {
  Text out;
  for (const Value& item : list.items) {
    if (!out.empty()) out.append(", ", true);
    out.append(repr(item));
  }
  return out;
}

Text around(std::string_view before, const Text& inside, std::string_view after) {
  Text out(std::string(before), true);
  out.append(inside);
  out.append(after, true);
  return out;
}

Text repr_list(const List& list) {
  switch (list.kind) {
    case List::Kind::List:
      return around("[", repr_items(list), "]");
    case List::Kind::Tuple:
      return around("(", repr_items(list), list.items.size() == 1 ? ",)" : ")");
    case List::Kind::Range:
      return {list.range, true};
    case List::Kind::DictKeys:
      return around("dict_keys([", repr_items(list), "])");
    case List::Kind::DictValues:
      return around("dict_values([", repr_items(list), "])");
    case List::Kind::DictItems:
      return around("dict_items([", repr_items(list), "])");
  }
  return {};
}

Text repr_dict(const Dict& dict) {
  Text out("{", true);
  for (const auto& [key, value] : dict.entries()) {
    if (out.size() > 1) out.append(", ", true);
    out.append(repr(key));
    out.append(": ", true);
    out.append(repr(value));
  }
  out.append("}", true);
  return out;
}

}  // namespace

// The shortest digits that read back as the same number; an exponent where Python has one: below
// 1e-4 and from 1e16 on.
std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const double size = std::abs(value);
  const bool scientific = size != 0 && (size < 1e-4 || size >= 1e16);
  const auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
  const std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, value, format).ptr);
  return scientific || text.find('.') != std::string::npos ? text : text + ".0";
}

Text repr(const Value& value) {
  if (const Text* text = value.text()) return repr_text(*text);
  if (value.object_as<Namespace>() != nullptr) return {"<Namespace …>", true};
  return value.is_undefined() ? Text("Undefined", true) : to_text(value);
}

Text to_text(const Value& value) {
  if (const Text* text = value.text()) return *text;
  if (const List* list = value.list()) return repr_list(*list);
  if (const Dict* dict = value.dict()) return repr_dict(*dict);
  if (const Object* object = value.object()) return object->shown();
  if (value.is_undefined()) return {};
  if (value.is_none()) return {"None", true};
  if (value.is_bool()) return {value.truth() ? "True" : "False", true};
  if (const auto n = value.large_integer()) return {std::to_string(*n), true};
  if (value.is_float()) return {float_text(*value.real()), true};
  return {std::to_string(*value.integer()), true};
}

}  // namespace cria::jinja
