// libFuzzer entry: whatever the bytes, they come back.
#include <cstdlib>

#include "tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const cria::Vocabulary vocabulary = [] {
    static std::vector<std::string> names{"<unk>",
                                          "<s>",
                                          "<|im_end|>",
                                          "  ",
                                          "\xE2\x96\x81",
                                          "a",
                                          "\xE2\x96\x81"
                                          "a",
                                          "aa",
                                          "<",
                                          "<|",
                                          "\xC3\xA9"};
    for (int byte = 0; byte < 256; ++byte) {
      constexpr char kHex[] = "0123456789ABCDEF";
      names.push_back(std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">");
    }
    using enum cria::TokenType;
    cria::Vocabulary v;
    v.model = "llama";
    v.tokens.assign(names.begin(), names.end());
    v.types = {Unknown, Control, Control, UserDefined};
    v.types.resize(11, Normal);
    v.types.resize(v.tokens.size(), Byte);
    v.bos = 1;
    v.add_bos = true;
    return v;
  }();
  static const auto tokenizer = cria::Tokenizer::create(vocabulary);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (tokenizer->decode(tokenizer->encode(text, true, false)) != text) std::abort();
  const auto special = tokenizer->encode(text, false, true);
  if (tokenizer->decode(special, true) != text) std::abort();
  return 0;
}
