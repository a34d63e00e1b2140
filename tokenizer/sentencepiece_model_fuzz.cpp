// libFuzzer entry: any bytes are either a tokenizer.model, which comes back as it was, or an Error.
#include <cstdlib>

#include "tokenizer/sentencepiece_model.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kTokens = 64;
  try {
    cria::VocabularyBuilder first(kTokens, "fuzz"), second(kTokens, "fuzz");
    cria::read_sentencepiece_model(std::as_bytes(std::span(data, size)), "fuzz", first);
    first.fill_holes();
    const std::string bytes = cria::sentencepiece_model(first.vocabulary());
    cria::read_sentencepiece_model(std::as_bytes(std::span(bytes)), "fuzz", second);
    if (first.vocabulary().tokens != second.vocabulary().tokens ||
        first.vocabulary().types != second.vocabulary().types)
      std::abort();
  } catch (const cria::Error&) {
  }
  return 0;
}
